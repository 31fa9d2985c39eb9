import {
  type CryptoKey,
  decodeProtectedHeader,
  errors,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  type JWTVerifyResult,
  jwtVerify,
} from 'jose';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { within } from '../../shared/concurrency/shutdown.ts';
import { ApiError, toApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { NameStore } from '../../shared/store/records/account-store.ts';
import { invalidToken } from './authorization.ts';
import { type Identity, identityOf, type TokenRules, type VerifiedToken } from './identity-of.ts';
import type { IssuerKeys, KeySet } from './issuer-keys.ts';

/** Asymmetric only: a signature by a shared secret does not prove who signed. */
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
] as const;

const clockToleranceSeconds = 30;

/** The header fields that are read. Addresses and keys in the header are ignored: anyone could have signed the token. */
const headerSchema = z.object({
  alg: z.enum(algorithms),
  // Not every issuer sets the type of access tokens (RFC 9068 2.1); a token with another type is not accepted.
  typ: z
    .string()
    .regex(/^(JWT|at\+jwt|application\/at\+jwt)$/i)
    .optional(),
  kid: z.string().optional(),
});

type Deps = TokenRules & {
  issuer: string;
  issuerKeys: IssuerKeys;
  log: Pick<Log, 'info'>;
};

/** Verifies tokens of one issuer for the audience of this service (contract.md#c14-sign-in-tokens). */
export function createSignIn(deps: Deps) {
  // A token must be for one of `audiences`; undefined: it must name none.
  const { issuer, issuerKeys, log, ...rules } = deps;
  const { audiences } = rules;
  const options = {
    issuer,
    ...(audiences && { audience: [...audiences] }),
    algorithms: [...algorithms],
    clockTolerance: clockToleranceSeconds,
    requiredClaims: ['sub', 'exp'],
  };
  const logRefusal = createRefusalLog(log);
  return {
    /** Returns the identity of a sign-in token. Fails with `INVALID_TOKEN`, or `SERVICE_UNAVAILABLE` while the issuer is unavailable. */
    async identify(token: string): Promise<Identity> {
      try {
        requireSignedForm(token);
        const verified = await issuerKeys.consult((keys) => verify(token, keys, options));
        if (verified === undefined) throw new errors.JWTInvalid('not signed by a key of AUTH_URL');
        if (audiences === undefined) refuseAudience(verified);
        return identityOf(verified, rules, Date.now() / 1_000);
      } catch (error) {
        const classified = classify(error);
        if (classified.code === 'INVALID_TOKEN') logRefusal(classified);
        throw classified;
      }
    },
    /** Throws if the issuer does not answer. */
    check: issuerKeys.check,
  };
}

export type SignIn = ReturnType<typeof createSignIn>;

const refusalLogEveryMs = 60_000;

/**
 * Logs why tokens are refused, which the answer does not say, so that an operator can set the issuer up. Each reason is logged once a
 * minute at most, because anyone can send tokens. Reasons are texts of this program.
 */
function createRefusalLog(log: Deps['log']): (refusal: ApiError) => void {
  const loggedAt = new Map<string, number>();
  return function logRefusal({ cause }) {
    const reason = cause instanceof Error ? cause.message : '';
    const now = performance.now();
    if (now - (loggedAt.get(reason) ?? Number.NEGATIVE_INFINITY) < refusalLogEveryMs) return;
    loggedAt.set(reason, now);
    log.info({ reason }, 'a sign-in token was refused; the same reason is not logged again for a minute');
  };
}

/** Without a setting for the audience, a token for another service must not pass. */
function refuseAudience({ claims }: VerifiedToken): void {
  if (claims.aud === undefined) return;
  throw new errors.JWTClaimValidationFailed('aud is present', claims, 'aud', 'is present, and AUTH_AUDIENCE is none');
}

/** Refuses tokens that no key could make valid, without asking the issuer for keys. */
function requireSignedForm(token: string): void {
  if (token.split('.').length !== 3) throw new errors.JWTInvalid('not a signed token');
  headerSchema.parse(decodeHeader(token));
}

function decodeHeader(token: string): object {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw new errors.JWTInvalid('its header cannot be read');
  }
}

/**
 * Returns the claims if one of these keys signed them; `undefined` if none did, because a key that is not known yet may have signed them.
 * An invalid signature under the key that the token names is not such a case. Throws for tokens that no key could make valid.
 */
async function verify(token: string, keys: KeySet, options: JWTVerifyOptions): Promise<VerifiedToken | undefined> {
  let namesKey = false;
  const find: JWTVerifyGetKey = async (header, jws) => {
    namesKey = header.kid !== undefined;
    try {
      return await keys(header, jws);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) throw error;
      // The published key of this name is unusable, which does not prove that the token is invalid.
      throw new Error('a key of the identity provider cannot be used', { cause: error });
    }
  };
  try {
    return verified(await jwtVerify(token, find, options));
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    if (error instanceof errors.JWKSMultipleMatchingKeys) return verifyWithAny(token, error, options);
    if (error instanceof errors.JWSSignatureVerificationFailed && !namesKey) return undefined;
    throw error;
  }
}

function verified({ payload, protectedHeader }: JWTVerifyResult): VerifiedToken {
  return { claims: payload, type: protectedHeader.typ };
}

/** For a token without a key id, if several keys of the set are possible. */
async function verifyWithAny(token: string, candidates: AsyncIterable<CryptoKey>, options: JWTVerifyOptions) {
  for await (const key of candidates) {
    try {
      return verified(await jwtVerify(token, key, options));
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  return undefined;
}

/**
 * An invalid token is the caller's error; a failure to get the keys of the issuer is not, and never a 401 (contract.md#b3-our-failures).
 */
function classify(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const aboutKeySet = error instanceof errors.JWKSInvalid;
  if ((error instanceof errors.JOSEError && !aboutKeySet) || error instanceof z.ZodError) {
    return invalidToken(new Error(describe(error)));
  }
  return new ApiError('SERVICE_UNAVAILABLE', 'The sign-in token cannot be checked right now.', { cause: error });
}

/** The settings that the checks of jose compare claims with. */
const settingOf: Readonly<Record<string, string>> = { aud: 'AUTH_AUDIENCE', iss: 'AUTH_URL' };

/** Names the failed check and claim only: the error itself contains all personal data of the token. */
function describe(error: errors.JOSEError | z.ZodError): string {
  if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) {
    const setting = Object.hasOwn(settingOf, error.claim) ? `: ${settingOf[error.claim]}` : '';
    return `${error.code}: ${error.claim} ${error.reason}${error.reason === 'check_failed' ? setting : ''}`;
  }
  if (error instanceof errors.JWTInvalid) return `${error.code}: ${error.message}`;
  if (error instanceof errors.JOSEError) return error.code;
  return `not an access token: invalid ${error.issues.map(({ path }) => path.join('.')).join(', ')}`;
}

const accountsMax = 10_000;
const keptMs = 600_000;

/** Keeps the display names that sign-in tokens have, for operators to read (contract.md#si1-sign-in-by-any-provider). */
export function createDisplayNames({
  names,
  log,
  waitMs = 1_000,
}: {
  names: Pick<NameStore, 'keepName'>;
  log: Pick<Log, 'debug'>;
  waitMs?: number;
}) {
  const kept = new LRUCache<string, string>({ max: accountsMax, ttl: keptMs });
  return {
    /**
     * Keeps the name of an account. The store is asked only if this ingress has not kept the same name recently, or after a change of the
     * account, which may have created it. Never fails, and ends within a second.
     */
    async keep(id: string, name: string, { isChange }: { isChange: boolean }): Promise<void> {
      if (!isChange && kept.get(id) === name) return;
      kept.set(id, name);
      const keeping = names.keepName({ id, name }).catch((error: unknown) => {
        kept.delete(id);
        log.debug({ code: toApiError(error).code }, 'a display name was not kept; trying again at a later request');
      });
      await within(waitMs, keeping);
    },
  };
}

export type DisplayNames = ReturnType<typeof createDisplayNames>;
