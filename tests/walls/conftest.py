from tests.web.conftest import world, world_of

__all__ = ["world", "world_of"]
