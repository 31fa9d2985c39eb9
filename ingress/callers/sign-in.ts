import {
  type CryptoKey,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
  jwtVerify,
} from 'jose';
import { z } from 'zod';
import { ApiError } from '../../shared/errors.ts';
import { invalidToken } from './authorization.ts';
import { type Identity, identityOf, type TokenRules } from './identity-of.ts';
import type { KeySet } from './issuer/fetch-issuer-keys.ts';
import type { IssuerKeys } from './issuer/issuer-keys.ts';

export interface SignIn {
  /** Who a sign-in token stands for; `INVALID_TOKEN`, or `SERVICE_UNAVAILABLE` while the issuer is away. */
  identify(token: string): Promise<Identity>;
  /** Whether the issuer answers now; throws where it does not. */
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
] as const;

const clockToleranceSeconds = 30;

/** What a header may name besides its algorithm. Addresses and keys in it are not looked at: its signer could be anyone. */
const headerSchema = z.object({
  alg: z.enum(algorithms),
  // Not every issuer marks its access tokens (RFC 9068 2.1); one that is marked as something else is something else.
  typ: z
    .string()
    .regex(/^(JWT|at\+jwt|application\/at\+jwt)$/i)
    .optional(),
  kid: z.string().optional(),
});

/** Verifies tokens of one issuer for the audience that is this service. */
export function createSignIn(deps: TokenRules & { issuer: string; audience: string; issuerKeys: IssuerKeys }): SignIn {
  const { issuer, audience, issuerKeys, ...rules } = deps;
  const options = {
    issuer,
    audience,
    algorithms: [...algorithms],
    clockTolerance: clockToleranceSeconds,
    requiredClaims: ['sub', 'exp'],
  };
  return {
    async identify(token) {
      try {
        requireSignedForm(token);
        const claims = await issuerKeys.consult((keys) => verify(token, keys, options));
        if (claims === undefined) throw invalidToken(new Error('no key of the issuer signed it'));
        return identityOf(claims, rules, Date.now() / 1_000);
      } catch (error) {
        throw classify(error);
      }
    },
    check: issuerKeys.check,
  };
}

/** What no key of anybody's could make valid is refused without asking the issuer for any. */
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
 * The claims that one of these keys signed; `undefined` where none did, which a key that we do not know yet may have
 * done. A signature that is wrong under the key it names is not such a case. Throws for whatever no key would mend.
 */
async function verify(token: string, keys: KeySet, options: JWTVerifyOptions): Promise<JWTPayload | undefined> {
  let namesKey = false;
  const find: JWTVerifyGetKey = async (header, jws) => {
    namesKey = header.kid !== undefined;
    try {
      return await keys(header, jws);
    } catch (error) {
      if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) throw error;
      // What the issuer published under this name is no key for us, which says nothing of who signed.
      throw new Error('a key of the identity provider cannot be used', { cause: error });
    }
  };
  try {
    return (await jwtVerify(token, find, options)).payload;
  } catch (error) {
    if (error instanceof errors.JWKSNoMatchingKey) return undefined;
    if (error instanceof errors.JWKSMultipleMatchingKeys) return verifyWithAny(token, error, options);
    if (error instanceof errors.JWSSignatureVerificationFailed && !namesKey) return undefined;
    throw error;
  }
}

/** For a token without a key id, where several keys of the set could be its own. */
async function verifyWithAny(token: string, candidates: AsyncIterable<CryptoKey>, options: JWTVerifyOptions) {
  for await (const key of candidates) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw error;
    }
  }
  return undefined;
}

/** A fault of the token is the caller's; a fault in getting the issuer's keys is not, and never a 401. */
function classify(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const aboutKeySet = error instanceof errors.JWKSInvalid;
  if ((error instanceof errors.JOSEError && !aboutKeySet) || error instanceof z.ZodError) {
    return invalidToken(new Error(describe(error)));
  }
  return new ApiError('SERVICE_UNAVAILABLE', 'The sign-in token cannot be checked right now.', { cause: error });
}

/** Which fault it is, and of what: the error itself holds all that the token says of a person. */
function describe(error: errors.JOSEError | z.ZodError): string {
  if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) {
    return `${error.code}: ${error.claim} ${error.reason}`;
  }
  if (error instanceof errors.JOSEError) return error.code;
  return `no access token by its ${error.issues.map(({ path }) => path.join('.')).join(', ')}`;
}
