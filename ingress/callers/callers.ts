import { LRUCache } from 'lru-cache';
import { accountStatusOf, type Caller, callerOf } from '../../shared/caller.ts';
import { ApiError, temporarilyUnavailable } from '../../shared/errors.ts';
import { within } from '../../shared/process/shutdown.ts';
import { createSingleFlight } from '../../shared/single-flight.ts';
import type { GuestSecrets } from '../../shared/store/accounts/account.ts';
import type { Store } from '../../shared/store/store.ts';
import { type Credential, invalidKey } from './authorization.ts';
import type { SharedCallers } from './shared-callers.ts';

/**
 * Who a credential stands for. Fails with `INVALID_KEY` where it is a key that nobody has, and `SERVICE_UNAVAILABLE`
 * where that cannot be known. An account that was never used stands on the default plan, at version 0.
 */
export interface Callers {
  /** Whether this ingress has the caller of a key in memory, so that finding it needs no look-up. */
  knows(credential: Credential): boolean;
  /**
   * From memory, else from Redis, else from the store; undefined for an account that this ingress has not seen. What it
   * says may be overtaken: it counts only once Redis was asked whether its version is the present one (admit.lua).
   */
  find(credential: Credential): Promise<Caller | undefined>;
  /** From the store, by a reading that begins after this was called. */
  reread(credential: Credential): Promise<Caller>;
}

const callersMax = 50_000;
const rereadMs = 60_000;
/** A store that does not answer holds up a caller that is known no longer than this. */
const knownWaitMs = 100;
const unknownMax = 10_000;
/** Spares the store those who ask on and on. What another ingress shares meanwhile counts all the same. */
const unknownMs = 2_000;
const neverKnown = -1;
/**
 * Anybody can make up keys of the right form. However many come at once, callers that are known find the store as it is
 * with so many ahead of them, and no more.
 */
const firstSightsMax = 200;

export function createCallers(deps: {
  store: Pick<Store, 'findKeyOwner' | 'findAccount'>;
  sharedCallers: SharedCallers;
  /** Whether a guest key made with these secrets is still honoured. */
  guestSecretsInUse: (guest: GuestSecrets) => boolean;
  defaultPlan: string;
  clock?: { now(): number };
}): Callers {
  const { store, sharedCallers, guestSecretsInUse, defaultPlan, clock = performance } = deps;
  const callers = new LRUCache<string, Caller>({
    max: callersMax,
    ttl: rereadMs,
    ttlResolution: 0,
    noDeleteOnStaleGet: true,
    perf: clock,
  });
  /** Keys that nobody has, by the version of whoever had it last. */
  const unknown = new LRUCache<string, number>({ max: unknownMax, ttl: unknownMs, ttlResolution: 0, perf: clock });
  let firstSights = 0;
  const readings = createSingleFlight({ nameOf, fetch: read });
  const findings = createSingleFlight({ nameOf, fetch: findShared });

  /** What the store says goes. It can be kept at any time: it is used only while its version is the account's. */
  async function read(credential: Credential): Promise<Caller | undefined> {
    const caller = await ('account' in credential ? readAccount(credential.account) : readKeyOwner(credential.hashes));
    const name = nameOf(credential);
    if (caller === undefined) {
      unknown.set(name, callers.peek(name, { allowStale: true })?.version ?? neverKnown);
      callers.delete(name);
      return undefined;
    }
    const isNews = callers.get(name)?.version !== caller.version;
    if (isNews && 'hashes' in credential) void sharedCallers.put(name, caller);
    callers.set(name, caller);
    return caller;
  }

  async function readAccount(account: string): Promise<Caller> {
    return callerOf(account, await store.findAccount(account), defaultPlan);
  }

  async function readKeyOwner(hashes: readonly string[]): Promise<Caller | undefined> {
    const owner = await store.findKeyOwner(hashes);
    if (owner === undefined || (owner.guest !== undefined && !guestSecretsInUse(owner.guest))) return undefined;
    return { account: owner.account, keyId: owner.keyId, ...accountStatusOf(owner) };
  }

  /** A caller that was known is kept while the store is away, and the store is then left alone for a minute. */
  async function refresh(credential: Credential, known: Caller): Promise<Caller | undefined> {
    const reading = readings.join(credential).catch((error: unknown) => {
      if (!(error instanceof ApiError) || error.code !== 'SERVICE_UNAVAILABLE') throw error;
      callers.set(nameOf(credential), known);
      return known;
    });
    return (await within(knownWaitMs, reading)) ? reading : known;
  }

  async function findShared(credential: Credential): Promise<Caller | undefined> {
    const name = nameOf(credential);
    const found = callers.get(name);
    if (found !== undefined) return found;
    const shared = await sharedCallers.get(name);
    if ((unknown.get(name) ?? Number.NEGATIVE_INFINITY) >= (shared?.caller.version ?? neverKnown)) return undefined;
    if (shared === undefined) return readFirst(credential);
    callers.set(name, shared.caller, { start: clock.now() - shared.ageMs });
    return shared.ageMs < rereadMs ? shared.caller : refresh(credential, shared.caller);
  }

  /** By a reading that begins now, for a key that it does not find may have come into being since another began. */
  async function readFirst(credential: Credential): Promise<Caller | undefined> {
    if (firstSights >= firstSightsMax)
      throw temporarilyUnavailable(new Error('too many keys are seen for the first time'));
    firstSights++;
    try {
      return await readings.joinNext(credential);
    } finally {
      firstSights--;
    }
  }

  return {
    knows: (credential) => callers.peek(nameOf(credential), { allowStale: true }) !== undefined,
    async find(credential) {
      const name = nameOf(credential);
      const fresh = callers.get(name);
      if (fresh !== undefined) return fresh;
      const known = callers.get(name, { allowStale: true });
      if (known !== undefined) return requireKnown(await refresh(credential, known));
      return 'hashes' in credential ? requireKnown(await findings.joinNext(credential)) : undefined;
    },
    reread: async (credential) => requireKnown(await readings.joinNext(credential)),
  };
}

function requireKnown(caller: Caller | undefined): Caller {
  if (caller === undefined) throw invalidKey();
  return caller;
}

/** A key goes by its hash under the first pepper, whichever it was minted under; no account's name looks like one. */
function nameOf(credential: Credential): string {
  return 'hashes' in credential ? (credential.hashes[0] ?? '') : credential.account;
}
