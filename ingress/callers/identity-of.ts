import { errors, type JWTPayload } from 'jose';
import { z } from 'zod';

/** Who signed in: the account, and what the issuer lets them do beyond that (RFC 9068 2.2.3). */
export type Identity = { account: string; scopes: readonly string[] };

/** `clients`: those whose tokens are accepted, undefined for any. */
export type TokenRules = { clients: readonly string[] | undefined; tokenLifeMaxS: number };

/** The three hashes make it an ID token (OpenID Connect Core 1.0, 2 and 3.3.2.11), which is for a client and no pass to an API. */
const claimsSchema = z.object({
  // Half a character would become another one in a database, and two accounts one.
  sub: z
    .string()
    .min(1)
    .max(255)
    .refine((sub) => sub.isWellFormed()),
  exp: z.number(),
  iat: z.number().optional(),
  scope: z.string().catch(''), // of another form, it names none of ours
  nonce: z.never().optional(),
  at_hash: z.never().optional(),
  c_hash: z.never().optional(),
  // Only the holder of another key may use such a token (RFC 7800: DPoP, mutual TLS), and no proof of that is checked here.
  cnf: z.never().optional(),
  client_id: z.unknown().optional(),
  azp: z.unknown().optional(),
});

/** Who these claims, which the issuer has signed, stand for at this time (seconds). Throws an error of jose or zod for all others. */
export function identityOf(claims: JWTPayload, rules: TokenRules, nowS: number): Identity {
  const { sub, scope, ...rest } = claimsSchema.parse(claims);
  const refuse = (claim: string, reason: string) => {
    throw new errors.JWTClaimValidationFailed(`${claim} ${reason}`, claims, claim, reason);
  };
  // The client's id is in `client_id` by RFC 9068 2.2, and in `azp` where an issuer does not follow it.
  const client = rest.client_id ?? rest.azp;
  if (!isAccepted(client, rules.clients)) refuse('client_id', 'is not accepted');
  // A time of issue to come would make any life short.
  const issuedAt = Math.min(rest.iat ?? nowS, nowS);
  if (rest.exp - issuedAt > rules.tokenLifeMaxS) refuse('exp', 'is too long after its time of issue');
  return { account: `user:${sub}`, scopes: scope.split(' ').filter((name) => name !== '') };
}

function isAccepted(client: unknown, clients: readonly string[] | undefined): boolean {
  return clients === undefined || (typeof client === 'string' && clients.includes(client));
}
