"""Fake platforms for tests, demonstrations and development: they behave as the platforms do, not as we would like.

In a test: `with SimulatorThread() as simulator`, then `simulator.lab` and `simulator.origin("bluesky")`, which goes
where the platform's own address goes in the settings. As a process: `socialpub simulator`. The control page at `/`
shows what arrived. Its JSON:

    GET    /lab/ledger    what became public, in order (?platform= ?account= ?since=N)
    GET    /lab/calls     every call that arrived, with its status and the fault that was played
    POST   /lab/accounts  {"platform": "bluesky", "handle": "alice.test"}
    POST   /lab/faults    [{"fault": "reset_after", "operation": "*.putRecord", "nth": 3}]; GET and DELETE too
    POST   /lab/settings  {"latencyMs": 500, "listLagMs": 400, "listLimit": 50, "rateLimits": true}; GET too
    POST   /lab/tokens    {"platform": "bluesky", "access": "expired", "refresh": "revoked"}; "account" for one only
    POST   /lab/reset     forget everything but accounts and their tokens
    GET    /pages/NAME    a web page with a link card; /pages/NAME.png is its image
    GET    /pages/clip.mp4  a video of six seconds that every platform takes
"""
