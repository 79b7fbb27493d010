// Sign a body with octokit, and say whether octokit takes SIGNATURE for it: one line of JSON.
import { sign, verify } from "@octokit/webhooks-methods";

const { BODY, SECRET, SIGNATURE } = process.env;
console.log(JSON.stringify([await sign(SECRET, BODY), await verify(SECRET, BODY, SIGNATURE)]));
