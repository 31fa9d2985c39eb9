import ipaddr from 'ipaddr.js';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import type { Claim } from '../../shared/jobs/idempotency.ts';
import type {
  Admission,
  AdmitAnswer,
  CountersAnswer,
  Limit,
  LimitCounters,
  Repeat,
} from '../../shared/limits/admission.ts';
import type { Admit, Charge, Look } from '../../shared/limits/admit.ts';
import type { AskLimits } from '../../shared/limits/ask-limits.ts';
import type { Release } from '../../shared/limits/release.ts';
import type { Caller } from '../../shared/store/records/account.ts';
import { validUntil } from '../../shared/store/records/key.ts';
import { type Credential, invalidKey } from './authorization.ts';
import type { KeyUse } from './key-use.ts';

/**
 * `address` is where the request came from. `caller` is the result of the first look-up, undefined for an account that is not known here.
 * `claim` is set if the request has an idempotency key.
 */
export type CheckRequest = {
  requestId: string;
  address: string;
  credential: Credential;
  caller: Caller | undefined;
  claim?: Claim | undefined;
};

/** Returns the charge of a request, or why this caller may not make it; both depend on the plan of the caller. */
export type DecideCharge = (caller: Caller) => { charge: Charge } | { refusal: ApiError };

/**
 * `refused`: for a reason other than a limit; `limited`: by a limit, with the time to wait; `repeated`: the request `first` has claimed its
 * idempotency key.
 */
type CheckAnswer = { caller: Caller; counters: LimitCounters } & (
  | { outcome: 'admitted'; admission: Admission; inFlight: number; bytesReserved: number; charge: Charge }
  | { outcome: 'refused'; error: ApiError }
  | { outcome: 'limited'; limit: Limit; waitMs: number }
  | { outcome: 'repeated'; how: Repeat; first: string }
);

/**
 * Ensures that the caller is current (contract.md#c8-revocation). Costs one call to Redis, and one read of the store more if the caller is
 * stale or its month is not counted yet. Fails with `INVALID_KEY` or `KEY_EXPIRED` for a key that has ended, and with `SERVICE_UNAVAILABLE`
 * if the caller cannot be determined; `look` also fails as `requireAllowed` does.
 */
export function createCheckCaller({
  admit,
  release,
  askLimits,
  keyUse,
}: {
  admit: Admit;
  release: Release;
  /** Reads a caller by its credential. */
  askLimits: AskLimits<Credential>;
  keyUse: Pick<KeyUse, 'note'>;
}) {
  /** If the reply of an admission is lost, it may have run, or may still run: then no one would end its lease. */
  async function admitOrRelease(look: Look, charge: Charge): Promise<AdmitAnswer> {
    try {
      return await admit.admit(look, charge);
    } catch (error) {
      release({ ...look, keyId: charge.report.keyId }).catch(() => {});
      throw error;
    }
  }

  function asking({ requestId, credential, caller }: CheckRequest) {
    const account = 'account' in credential ? credential.account : undefined;
    return { account, subject: credential, requestId, caller };
  }

  return {
    /** A refusal is valid only for the current caller, so a refused request still reads the counters. */
    async admit(request: CheckRequest, ask: DecideCharge): Promise<CheckAnswer> {
      const asked: { last?: ReturnType<DecideCharge> } = {};
      const { caller, answer } = await askLimits<AdmitAnswer | CountersAnswer>(asking(request), (look, found) => {
        if (found === undefined) return admit.readCounters(look);
        const refusal = refusalOf(found, request);
        const asks = refusal === undefined ? ask(found) : { refusal };
        asked.last = asks;
        const { claim } = request;
        if ('charge' in asks) return admitOrRelease({ ...look, claim }, asks.charge);
        // A repeat gets its answer also if it would be refused now, except by what its caller or key may do.
        return admit.readCounters(asks.refusal.code === 'FORBIDDEN' ? look : { ...look, claim });
      });
      if (answer.outcome === 'expired') throw keyEnded(caller);
      if (answer.outcome === 'ended')
        throw temporarilyUnavailable(new Error('a request was ended before its admission'));
      const { counters } = answer;
      requireUnexpired(caller, counters.now);
      if (answer.outcome === 'full') return { outcome: 'refused', caller, counters, error: outboxFull() };
      if (answer.outcome === 'refused') return { ...answer, outcome: 'limited', caller };
      if (answer.outcome === 'repeated') {
        keyUse.note(caller);
        return { ...answer, caller };
      }
      const { last } = asked;
      if (last !== undefined && 'refusal' in last) return { outcome: 'refused', caller, counters, error: last.refusal };
      if (last === undefined || answer.outcome !== 'admitted') {
        throw new Error('a caller was neither admitted nor refused');
      }
      keyUse.note(caller);
      return { ...answer, caller, charge: last.charge };
    },
    /** Charges nothing; `now` is the time of Redis, in milliseconds. */
    async look(request: CheckRequest): Promise<{ caller: Caller; now: number }> {
      const { caller, answer } = await askLimits(asking(request), admit.look);
      requireUnexpired(caller, answer.now);
      requireAllowed(caller, request);
      keyUse.note(caller);
      return { caller, now: answer.now };
    },
    /** Also reads the counters of the account, even if it is suspended. */
    async readCounters(request: CheckRequest): Promise<{ caller: Caller; counters: LimitCounters }> {
      const { caller, answer } = await askLimits(asking(request), admit.readCounters);
      requireUnexpired(caller, answer.counters.now);
      if (refusalOf(caller, request) === undefined) keyUse.note(caller);
      return { caller, counters: answer.counters };
    },
  };
}

export type CheckCaller = ReturnType<typeof createCheckCaller>;

function outboxFull(): ApiError {
  return temporarilyUnavailable(new Error('too much usage waits for the store (OUTBOX_LENGTH_MAX)'));
}

/** Throws `FORBIDDEN` for an account that is suspended, and for a key that may not be used from this address. */
export function requireAllowed(caller: Caller, request: Pick<CheckRequest, 'address'>): void {
  const refusal = refusalOf(caller, request);
  if (refusal !== undefined) throw refusal;
}

function refusalOf({ suspended, keyScope }: Caller, { address }: Pick<CheckRequest, 'address'>): ApiError | undefined {
  if (suspended) return accountSuspended();
  if (isAllowedAddress(address, keyScope?.allowedIps)) return undefined;
  return new ApiError('FORBIDDEN', 'This key may not be used from this address.');
}

/** Fails with `KEY_EXPIRED` if the key has expired, and with `INVALID_KEY` if it was rotated and its grace is over. `now`: Redis's time. */
function requireUnexpired(caller: Caller, now: number): void {
  const end = caller.keyScope && validUntil(caller.keyScope);
  if (end !== undefined && now >= end) throw keyEnded(caller);
}

function keyEnded({ keyScope }: Caller): ApiError {
  const { expiresAt = Number.POSITIVE_INFINITY, endsAt = Number.POSITIVE_INFINITY } = keyScope ?? {};
  if (endsAt <= expiresAt) return invalidKey();
  return new ApiError('KEY_EXPIRED', 'This API key has expired.');
}

export function accountSuspended(): ApiError {
  return new ApiError('FORBIDDEN', 'This account is suspended.');
}

type Network = [ipaddr.IPv4 | ipaddr.IPv6, number];

/** Callers stay in memory, and so do the lists of their keys. */
const networks = new WeakMap<readonly string[], Network[]>();

/** Whether the text is an address, or a range of them in CIDR notation (RFC 4632, RFC 4291): `192.0.2.7`, `2001:db8::/32`. */
export function isAddressRange(text: string): boolean {
  return parseRange(text) !== undefined;
}

/** Whether a client with this address may use a key with these addresses and ranges; anyone may if there are none. */
export function isAllowedAddress(address: string, allowed: readonly string[] | undefined): boolean {
  if (allowed === undefined) return true;
  if (!ipaddr.isValid(address)) return false;
  const client = ipaddr.process(address); // an IPv4 address within IPv6 counts as IPv4
  return networksOf(allowed).some(([network, bits]) => client.kind() === network.kind() && client.match(network, bits));
}

function networksOf(allowed: readonly string[]): Network[] {
  const known = networks.get(allowed);
  if (known !== undefined) return known;
  const parsed = allowed.flatMap((text) => {
    const range = parseRange(text);
    return range === undefined ? [] : [range];
  });
  networks.set(allowed, parsed);
  return parsed;
}

function parseRange(text: string): Network | undefined {
  if (text.includes('%')) return undefined; // a zone has a meaning on one machine only
  const range = text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`;
  if (!ipaddr.IPv4.isValidCIDR(range) && !ipaddr.IPv6.isValidCIDR(range)) return undefined;
  const [address = '', bits = ''] = range.split('/');
  const isDotted = !address.includes(':');
  if (isDotted && !ipaddr.IPv4.isValidFourPartDecimal(address)) return undefined; // 10.1 would be 10.0.0.1
  const parsed = ipaddr.parse(address);
  if (!(parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress())) return [parsed, Number(bits)];
  return Number(bits) < 96 ? undefined : [parsed.toIPv4Address(), Number(bits) - 96];
}
