"""Fake platforms for tests, demos and development, which behave as the real platforms do.

In a test: `with SimulatorThread() as simulator`, then `simulator.lab` (its state) and `simulator.origin("bluesky")`
(the value for `api_base`). As a process: `socialpub simulator`. The control page at `/` shows what was
published. Its JSON:

    GET    /lab/ledger    everything published, in order (?platform= ?account= ?since=N)
    GET    /lab/calls     every call, with its status and fault
    POST   /lab/accounts  {"platform": "bluesky", "handle": "alice.test"}
    POST   /lab/faults    [{"fault": "reset_after", "operation": "*.putRecord", "nth": 3}]; GET and DELETE too
    POST   /lab/settings  {"latencyMs": 500, "listLagMs": 400, "listLimit": 50, "rateLimits": true}; GET too
    POST   /lab/tokens    {"platform": "bluesky", "access": "expired", "refresh": "revoked"}; "account" for one only
    POST   /lab/reset     delete everything but accounts and their tokens
    GET    /pages/NAME    a web page with a link card; /pages/NAME.png is its image
    GET    /pages/clip.mp4  a video of six seconds that every platform accepts
"""
