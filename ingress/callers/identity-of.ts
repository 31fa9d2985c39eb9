import { errors, type JWTPayload } from 'jose';
import { z } from 'zod';

/** The account that signed in, and the scopes that the issuer granted (RFC 9068 2.2.3). */
export type Identity = { account: string; scopes: readonly string[] };

/** `clients`: the clients whose tokens are accepted; undefined accepts all. */
export type TokenRules = { clients: readonly string[] | undefined; tokenLifeMaxS: number };

/** `nonce`, `at_hash` and `c_hash` mark an ID token (OpenID Connect Core 1.0, 2 and 3.3.2.11), which is meant for a client and not for an API. */
const claimsSchema = z.object({
  // A database would replace a lone surrogate, so that two accounts could become one.
  sub: z
    .string()
    .min(1)
    .max(255)
    .refine((sub) => sub.isWellFormed()),
  exp: z.number(),
  iat: z.number().optional(),
  scope: z.string().catch(''), // any other form names no scope of ours
  nonce: z.never().optional(),
  at_hash: z.never().optional(),
  c_hash: z.never().optional(),
  // Such a token requires proof of possession of a key (RFC 7800: DPoP, mutual TLS), which is not checked here
  // (decisions.md#sign-in-tokens-without-proof-of-possession).
  cnf: z.never().optional(),
  client_id: z.unknown().optional(),
  azp: z.unknown().optional(),
});

/** Returns the identity of verified claims at this time (seconds). Throws an error of jose or zod for invalid claims. */
export function identityOf(claims: JWTPayload, rules: TokenRules, nowS: number): Identity {
  const { sub, scope, ...rest } = claimsSchema.parse(claims);
  const refuse = (claim: string, reason: string) => {
    throw new errors.JWTClaimValidationFailed(`${claim} ${reason}`, claims, claim, reason);
  };
  // The client id is in `client_id` by RFC 9068 2.2, and in `azp` of issuers that do not follow it.
  const client = rest.client_id ?? rest.azp;
  if (!isAccepted(client, rules.clients)) refuse('client_id', 'is not accepted');
  // A time of issue in the future would make any lifetime look short.
  const issuedAt = Math.min(rest.iat ?? nowS, nowS);
  if (rest.exp - issuedAt > rules.tokenLifeMaxS) refuse('exp', 'is too long after its time of issue');
  return { account: `user:${sub}`, scopes: scope.split(' ').filter((name) => name !== '') };
}

function isAccepted(client: unknown, clients: readonly string[] | undefined): boolean {
  return clients === undefined || (typeof client === 'string' && clients.includes(client));
}
