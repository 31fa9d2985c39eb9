import { errors, type JWTPayload } from 'jose';
import { z } from 'zod';
import { isObject } from '../../shared/json/json-values.ts';

/** The account that signed in, and whether it is an operator. `name` is its display name, if the service keeps names. */
export type Identity = { account: string; isOperator: boolean; name?: string };

/**
 * `clients`: the clients whose tokens are accepted; undefined accepts all. An operator obeys one of `operators`. `acceptsUnmarked`: tokens
 * are accepted that may be ID tokens, because the issuer does not mark its access tokens. A token may be the console's ID token if
 * `consoleClientId` is the only one of `audiences` that it is for.
 */
export type TokenRules = {
  clients: readonly string[] | undefined;
  tokenLifeMaxS: number;
  operators: readonly ClaimRule[];
  accountClaim: string;
  nameClaim: string | undefined;
  acceptsUnmarked: boolean;
  audiences: readonly string[] | undefined;
  consoleClientId: string;
};

/** Verified claims, and the type in the header of their token. */
export type VerifiedToken = { claims: JWTPayload; type: string | undefined };

// A database would replace a lone surrogate, so that two accounts could become one.
const accountName = z
  .string()
  .min(1)
  .max(255)
  .refine((name) => name.isWellFormed());

const claimsSchema = z.object({
  sub: accountName,
  exp: z.number(),
  iat: z.number().optional(),
  // Such a token requires proof of possession of a key (RFC 7800: DPoP, mutual TLS), which is not checked here
  // (decisions.md#sign-in-tokens-without-proof-of-possession).
  cnf: z.never().optional(),
});

/** Where issuers put the id of the client: RFC 9068 2.2; OpenID Connect and Entra ID; Okta; earlier tokens of Entra ID. */
const clientClaims = ['client_id', 'azp', 'cid', 'appid'] as const;

/** Returns the identity of a verified token at this time (seconds). Throws an error of jose or zod for invalid claims. */
export function identityOf(token: VerifiedToken, rules: TokenRules, nowS: number): Identity {
  const { claims } = token;
  const { exp, iat } = claimsSchema.parse(claims);
  const refuse: Refuse = (claim, reason) => {
    throw new errors.JWTClaimValidationFailed(`${claim} ${reason}`, claims, claim, reason);
  };
  refuseOtherKinds(token, rules, refuse);
  const client = clientClaims.map((name) => claims[name]).find((id) => id !== undefined && id !== null);
  if (!isAccepted(client, rules.clients))
    refuse('client_id', `(or ${clientClaims.slice(1).join(', ')}) is not in AUTH_CLIENTS`);
  // A time of issue in the future would make any lifetime look short.
  const issuedAt = Math.min(iat ?? nowS, nowS);
  if (exp - issuedAt > rules.tokenLifeMaxS) refuse('exp', 'is too long after its time of issue: AUTH_TOKEN_LIFE_MAX_S');
  const { accountClaim, nameClaim, operators } = rules;
  const account = accountName.safeParse(claimNamed(claims, accountClaim));
  if (!account.success) return refuse(accountClaim, 'is no text of 1 to 255 characters: AUTH_ACCOUNT_CLAIM');
  const name = nameClaim === undefined ? undefined : displayNameIn(claimNamed(claims, nameClaim));
  return {
    account: `user:${account.data}`,
    isOperator: obeysAny(claims, operators),
    ...(name !== undefined && { name }),
  };
}

type Refuse = (claim: string, reason: string) => never;

/**
 * Issuers sign other tokens, too: refresh and logout tokens, and ID tokens, which are meant for a client and not for an API (OpenID Connect
 * Core 1.0, 2 and 3.3.2.11; Back-Channel Logout 1.0, 2.4). Some make ID and access tokens alike: then only `acceptsUnmarked` lets either
 * pass. A claim with the value null counts as present.
 */
function refuseOtherKinds(token: VerifiedToken, rules: TokenRules, refuse: Refuse): void {
  const { claims } = token;
  for (const [claim, kind] of Object.entries(accessKinds)) {
    if (claims[claim] !== undefined && !isText(claims[claim], kind)) refuse(claim, 'is not that of an access token');
  }
  if (claims.events !== undefined) refuse('events', 'marks a logout token');
  if (claims.c_hash !== undefined) refuse('c_hash', 'marks an ID token');
  if (rules.acceptsUnmarked) return;
  if (claims.at_hash !== undefined) refuse('at_hash', 'marks an ID token: AUTH_UNMARKED_TOKENS');
  if (isMarked(token)) return;
  const unmarked = 'without scope, scp, or another mark of an access token: AUTH_UNMARKED_TOKENS';
  if (claims.nonce !== undefined) refuse('nonce', unmarked);
  if (isForConsoleOnly(claims, rules)) refuse('aud', `is CONSOLE_CLIENT_ID, ${unmarked}`);
}

/** The claims that name the kind of a token (Keycloak; Cognito), and how they name an access token. */
const accessKinds = { typ: 'bearer', token_use: 'access' } as const;

/** Whether a token says that it is an access token. */
function isMarked({ claims, type }: VerifiedToken): boolean {
  const hasScope = [claims.scope, claims.scp].some((scope) => typeof scope === 'string' || Array.isArray(scope));
  const isAccessType = type !== undefined && /^(application\/)?at\+jwt$/i.test(type);
  const isAccessKind = Object.entries(accessKinds).some(([claim, kind]) => isText(claims[claim], kind));
  return hasScope || isAccessType || isAccessKind;
}

function isForConsoleOnly({ aud }: JWTPayload, { audiences = [], consoleClientId }: TokenRules): boolean {
  const ours = [aud].flat().filter((name) => name !== undefined && audiences.includes(name));
  return ours.length > 0 && ours.every((name) => name === consoleClientId);
}

function isText(claim: unknown, text: string): boolean {
  return typeof claim === 'string' && claim.toLowerCase() === text;
}

function isAccepted(client: unknown, clients: readonly string[] | undefined): boolean {
  return clients === undefined || (typeof client === 'string' && clients.includes(client));
}

/** A value that a claim of a token must have. */
type ClaimRule = { claim: string; value: string };

/**
 * Returns a claim by its name, in which a dot is a path: `realm_access.roles`. A claim whose own name has dots
 * (`https://example.com/roles`) comes first, at each level. Inherited properties are not claims.
 */
function claimNamed(claims: object, name: string): unknown {
  const own = Object.getOwnPropertyDescriptor(claims, name);
  if (own !== undefined) return own.value;
  for (let dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
    const outer: unknown = Object.getOwnPropertyDescriptor(claims, name.slice(0, dot))?.value;
    const inner = isObject(outer) ? claimNamed(outer, name.slice(dot + 1)) : undefined;
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** Whether a token obeys one of these rules. `scope` stands for both names of that claim. */
function obeysAny(claims: object, rules: readonly ClaimRule[]): boolean {
  return rules.some(({ claim, value }) => {
    const names = claim === 'scope' ? ['scope', 'scp'] : [claim];
    return names.some((name) => has(claimNamed(claims, name), value));
  });
}

/**
 * A claim has several values as words in a text, as items of a list, or as keys of an object. A key whose value is `false`, null, 0 or
 * empty text does not count.
 */
function has(claim: unknown, value: string): boolean {
  if (typeof claim === 'string') return claim === value || claim.split(' ').includes(value);
  if (Array.isArray(claim)) return claim.includes(value);
  return isObject(claim) && Object.hasOwn(claim, value) && Boolean(claim[value]);
}

const nameLengthMax = 100;
/** Characters that would break a line, or reverse the text around the name. */
const unshown = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\s]+/gu;

/** Returns a name to show in one line, of at most 100 characters. Undefined if the claim is not such a text. */
function displayNameIn(claim: unknown): string | undefined {
  if (typeof claim !== 'string') return undefined;
  const shown = claim
    .slice(0, 4 * nameLengthMax)
    .toWellFormed()
    .replace(unshown, ' ')
    .trim();
  const name = Array.from(shown).slice(0, nameLengthMax).join('').trim();
  return name === '' ? undefined : name;
}
