import type { BackendError, BackendFault } from '../../shared/endpoints/answers/backend-error.ts';
import type { StopReason } from './run.ts';

/** Codes of Node's and undici's errors. Others are a connection that failed. */
const connectionCauses: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection closed by the server',
  EPIPE: 'connection closed by the server',
  UND_ERR_SOCKET: 'connection closed by the server',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  CERT_HAS_EXPIRED: 'TLS certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'TLS certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'TLS certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'TLS certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'TLS certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'TLS certificate is for another host',
};

const faultCauses: Readonly<Record<Exclude<BackendFault, 'status' | 'said' | 'connection'>, string>> = {
  connect_timeout: 'no connection',
  first_token_timeout: 'no token',
  idle_timeout: 'nothing',
  unreadable: 'unreadable answer',
  interrupted: 'answer broke off',
  too_large: 'answer too large',
};

/**
 * Why a call gave no answer, in a few words for its usage record: never a word of the backend (contract.md#ms13-words-of-refusals).
 * `status`: the one that an error in a 200 stands for.
 */
export function causeOf({ fault, status, waitedMs, cause }: BackendError, said: number | undefined): string {
  if (fault === 'status') return `HTTP ${status}`;
  if (fault === 'said')
    return said === undefined ? 'an error in its answer' : `an error in its answer, like HTTP ${said}`;
  if (fault === 'connection') return connectionCauses[connectionCodeOf(cause)] ?? 'connection failed';
  return waitedMs === undefined ? faultCauses[fault] : `${faultCauses[fault]} within ${waitedMs / 1_000} s`;
}

/** Undici puts the error of a socket into the cause of its own. */
function connectionCodeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return '';
  const { code } = cause as { code?: unknown }; // Node's errors have one
  return typeof code === 'string' && code in connectionCauses ? code : connectionCodeOf(cause.cause);
}

/** Why this service gave up a call. */
export const stopCauses: Readonly<Record<StopReason, string>> = {
  cancelled: 'the client left',
  'ingress gone': 'the ingress ended',
  'lock lost': 'the worker lost the job',
  shutdown: 'the worker was stopped',
  deadline: 'the deadline of the request',
  'account suspended': 'the account was suspended',
  'batch cancelled': 'the batch was cancelled',
  'batch expired': 'the batch expired',
};
