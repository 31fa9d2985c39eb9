import { createRemoteJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from 'jose';
import { z } from 'zod';
import { ApiError } from '../shared/errors.ts';
import type { Log } from '../shared/log.ts';
import { invalidToken } from './authorization.ts';

/** Who signed in: the account (API C13), and what the issuer lets them do beyond that (RFC 9068 2.2.3). */
export type Identity = { account: string; scopes: readonly string[] };

export interface SignIn {
  /** Who a sign-in token stands for (API C14); `INVALID_TOKEN`, or `SERVICE_UNAVAILABLE` while the issuer is away. */
  identify(token: string): Promise<Identity>;
  /** Whether the issuer answers now, and its keys are known from then on; throws where it does not. */
  check(): Promise<void>;
}

/** Asymmetric only: a token signed with anything that we would share with its signer proves nothing. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
];

const issuerTimeoutMs = 2_000;
const clockToleranceSeconds = 30;
const claimsSchema = z.object({ sub: z.string().min(1).max(255), scope: z.string().default('') });
const discoverySchema = z.object({ issuer: z.string(), jwks_uri: z.url({ protocol: /^https?$/ }) });

/** Verifies tokens of one issuer, found by OpenID Connect discovery, for the audience that is this service. */
export function createSignIn({ issuer, audience, log }: { issuer: string; audience: string; log: Log }): SignIn {
  let keySet: Promise<ReturnType<typeof createRemoteJWKSet>> | undefined;

  /** Discovery happens once; one that failed is done again by the next token. */
  function keys() {
    keySet ??= discover(issuer).catch((error: unknown) => {
      keySet = undefined;
      log.warn({ err: error }, 'the identity provider cannot be reached');
      throw unavailable(error);
    });
    return keySet;
  }

  const getKey: JWTVerifyGetKey = async (header, token) => (await keys())(header, token);

  return {
    async identify(token) {
      try {
        const { payload } = await jwtVerify(token, getKey, {
          issuer,
          audience,
          algorithms,
          clockTolerance: clockToleranceSeconds,
          requiredClaims: ['sub', 'exp'],
        });
        const { sub, scope } = claimsSchema.parse(payload);
        return { account: `user:${sub}`, scopes: scope.split(' ').filter((name) => name !== '') };
      } catch (error) {
        throw classify(error);
      }
    },
    async check() {
      await discover(issuer);
      const known = await keys();
      if (known.jwks() === undefined) await known.reload();
    },
  };
}

/** OpenID Connect Discovery 1.0, section 4. The key set is kept for good and read again for a key id that it lacks. */
async function discover(issuer: string) {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const response = await fetch(url, { signal: AbortSignal.timeout(issuerTimeoutMs), redirect: 'error' });
  if (!response.ok) throw new Error(`discovery answered ${response.status}`);
  const document = discoverySchema.parse(await response.json());
  if (document.issuer !== issuer) throw new Error('discovery names another issuer than AUTH_URL');
  return createRemoteJWKSet(new URL(document.jwks_uri), {
    timeoutDuration: issuerTimeoutMs,
    cacheMaxAge: Number.POSITIVE_INFINITY,
  });
}

/** A fault of the token is the caller's; a fault in getting the issuer's keys is not, and never a 401 (API B3). */
function classify(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const aboutKeySet = error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid;
  if (
    (error instanceof errors.JOSEError && !aboutKeySet && error.code !== 'ERR_JOSE_GENERIC') ||
    error instanceof z.ZodError
  ) {
    return invalidToken(new Error(describe(error)));
  }
  return unavailable(error);
}

function unavailable(cause: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The sign-in token cannot be checked right now.', { cause });
}

/** Which fault it is, and of which claim: the error itself holds all that the token says of a person. */
function describe(error: Error): string {
  if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) {
    return `${error.code}: ${error.claim} ${error.reason}`;
  }
  return error instanceof errors.JOSEError ? error.code : 'sub is not a name, or scope not a list of names';
}
