"""HTTP as handlers see it: requests, responses, headers, bodies, and changes to Sanic."""
