import { createApplyTopUpCode } from '../shared/account-changes/apply-top-up-code.ts';
import { createChangeAccount, createRecordedChange } from '../shared/account-changes/change-account.ts';
import { createClearAccount } from '../shared/account-changes/remove-account.ts';
import { createAdmit } from '../shared/limits/admit.ts';
import { createAskLimits } from '../shared/limits/ask-limits.ts';
import type { Release } from '../shared/limits/release.ts';
import { createSeed } from '../shared/limits/seed.ts';
import { watchSuspensions } from '../shared/limits/watch-suspensions.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { IngressConfig } from '../shared/process/config.ts';
import type { Log } from '../shared/process/log.ts';
import type { Redis } from '../shared/redis/connections.ts';
import { authFailuresKey, codeFailuresKey, guestCallsKey, settingsWritesKey } from '../shared/redis/keys.ts';
import type { Store } from '../shared/store/records/store.ts';
import type { AuthenticationParts, OperatorParts } from './app-parts.ts';
import { createCallers, createSharedCallers } from './authentication/callers.ts';
import { createGuestKeys } from './authentication/change-keys.ts';
import { createCheckCaller } from './authentication/check-caller.ts';
import { createKeyUse } from './authentication/key-use.ts';
import { createLimitMints } from './authentication/limit-mints.ts';
import { createDisplayNames, type SignIn } from './authentication/sign-in.ts';
import { createLimitPeaks } from './limits/limit-peaks.ts';
import { createLimitCalls, createLimitFailures, createMinuteCounts } from './limits/minute-counts.ts';
import { nextRequestId } from './middleware/request-head.ts';

type AuthenticationDeps = {
  config: IngressConfig;
  currentPlanFile: () => PlanFile;
  signIn: SignIn;
  redis: Redis;
  store: Store;
  release: Release;
  outboxLengthMax: number;
  log: Log;
};

/** Opens what identifies callers, checks them and changes their accounts. */
export function openAuthentication(deps: AuthenticationDeps) {
  const { config, currentPlanFile, signIn, redis, store, release, outboxLengthMax, log } = deps;
  const owned = new AsyncDisposableStack();
  const defaultPlan = () => currentPlanFile().defaultPlan;
  const keyUse = owned.use(createKeyUse({ store: store.accounts, log }));
  const guestKeys = createGuestKeys({ secrets: config.guestKeySecrets, peppers: config.keyPeppers });
  const sharedCallers = createSharedCallers({ redis, secretsInUse: guestKeys.secretsInUse, log });
  const callers = createCallers({
    store: store.accounts,
    sharedCallers,
    defaultPlan,
    guestSecretsInUse: guestKeys.inUse,
  });
  const askLimits = createAskLimits({
    seed: createSeed({ redis, store: store.usage }),
    reread: callers.reread,
  });
  const admit = createAdmit(redis, { timeouts: () => currentPlanFile().timeouts, outboxLengthMax });
  const asking = (account: string) => ({
    account,
    subject: { account },
    requestId: nextRequestId(),
    caller: undefined,
  });
  const readCountersOf: OperatorParts['readCountersOf'] = async (account) => {
    const { caller, answer } = await askLimits(asking(account), admit.readCounters);
    return { caller, counters: answer.counters };
  };
  const lookAtAccount = async (account: string) => (await askLimits(asking(account), admit.look)).caller;
  const suspensions = owned.use(watchSuspensions({ redis, look: lookAtAccount, log }));
  const changeAccount = createChangeAccount({ redis, store: store.accounts, log });
  const changeRecorded = createRecordedChange({ changeAccount, store, log });
  const authentication: AuthenticationParts = {
    peppers: config.keyPeppers,
    signIn,
    callers,
    sharedCallers,
    checkCaller: createCheckCaller({ admit, release, askLimits, keyUse }),
    displayNames: createDisplayNames({ names: store.accounts, log }),
    guestKeys,
    keyUse,
    changeAccount,
    changeRecorded,
    clearAccount: createClearAccount({ store, changeAccount }),
    applyTopUpCode: createApplyTopUpCode({ changeRecorded, store, defaultPlan, log }),
    limitPeaks: owned.use(createLimitPeaks({ redis, log })),
    ...createClientLimits(deps),
  };
  return { authentication, suspensions, readCountersOf, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A code has 150 random bits: this only bounds the lookups. */
const codeFailuresPerMinute = 10;

/**
 * The limits of clients that have no valid credential yet (contract.md#a6-bounds-before-authentication), of guesses at top-up codes, and of
 * an account's writes of its own settings.
 */
function createClientLimits({ config, redis, log }: Pick<AuthenticationDeps, 'config' | 'redis' | 'log'>) {
  const limitSettingsWrites = createLimitCalls({
    kind: 'settings_limit',
    calls: createMinuteCounts({ redis, keyOf: settingsWritesKey, log }),
  });
  return {
    limitAuthFailures: createLimitFailures({
      kind: 'auth_failures',
      failures: createMinuteCounts({ redis, keyOf: authFailuresKey, log }),
      perMinute: config.authFailuresPerMinute,
    }),
    limitCodeFailures: createLimitFailures({
      kind: 'code_failures',
      failures: createMinuteCounts({ redis, keyOf: codeFailuresKey, log }),
      perMinute: codeFailuresPerMinute,
    }),
    limitGuestCalls: createLimitCalls({
      kind: 'guest_calls',
      calls: createMinuteCounts({ redis, keyOf: guestCallsKey, log }),
    }),
    limitSettingsWrites: (account: string) => limitSettingsWrites(account, config.settingsWritesPerMinute),
    limitMints: createLimitMints(redis),
  };
}
