import type { AskBackend } from '../../shared/fleet/ask-backend.ts';
import type { BackendKeys } from '../../shared/fleet/backend-keys.ts';
import { createBackendPauses } from '../../shared/fleet/backend-pauses.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import type { Shares } from '../fleet-limits/start-share-renewal.ts';
import { startShares } from '../fleet-limits/start-shares.ts';
import { type BackendChecks, followFacts } from './ask-backends.ts';
import type { BackendMetrics } from './backend-metrics.ts';
import { type BackendSlots, createBackendSlots } from './backend-slots.ts';
import type { CallHistory } from './call-history.ts';
import { followOperatorPauses } from './pauses.ts';
import type { BreakerStatus } from './served-backends.ts';

/** Slots of backends. They have no share of fleet limits until `startShares` is called. */
type OpenedSlots = Disposable & { slots: BackendSlots; startShares(): Shares };

/** Opens the slots of this worker's backends, with its shares of their fleet limits. Logs and counts changes of breakers. */
export function openSlots(deps: {
  planFile: Pick<PlanFileInForce, 'current' | 'onReplaced'>;
  pools: () => readonly string[];
  ask: AskBackend;
  keys: Pick<BackendKeys, 'lacks'>;
  checks: Pick<BackendChecks, 'test'>;
  redis: Redis;
  workerId: string;
  /** A slot may be free now. */
  onChange: () => void;
  /** Shares were renewed. */
  onRenewed: () => void;
  shutdown: AbortSignal;
  metrics: BackendMetrics;
  history: Pick<CallHistory, 'noteBreaker' | 'keepOnly'>;
  log: Log;
}): OpenedSlots {
  const { planFile, pools, redis, workerId, onChange, shutdown, metrics, history, log } = deps;
  let shares: Shares | undefined;
  const called = () => slots.called();
  const owned = new DisposableStack();
  const facts = owned.use(followFacts({ ask: deps.ask, currentPlanFile: planFile.current, called, log }));
  const slots = createBackendSlots({
    currentPlanFile: planFile.current,
    pools,
    onChange,
    onBreaker: reportBreaker,
    onPreferred: metrics.notePreference,
    test: deps.checks.test,
    contextOf: facts.contextOf,
    lacksKey: (name) => deps.keys.lacks(planFile.current().backends[name] ?? {}),
    shareOf: (backend, unknown) => shares?.shareOf(backend, unknown) ?? unknown,
    renewingShareOf: (backend) => shares?.renewingShareOf(backend),
    callsElsewhere: (backend) => shares?.callsElsewhere(backend) ?? 0,
    areSharesValid: (backend) => shares?.areValid(backend) ?? false,
    onHungry: (backends) => shares?.renewSoon(backends),
    onMissed: (backend) => shares?.renewQuickly([backend]),
  });
  owned.use(slots);
  metrics.observeBackends(slots);
  planFile.onReplaced(() => {
    slots.follow();
    history.keepOnly(slots.breakerStatuses());
    void facts.look();
  });
  void facts.look();

  function reportBreaker({ backend, model, breaker }: BreakerStatus): void {
    history.noteBreaker({ backend, model, breaker });
    if (breaker === 'open') metrics.breakerOpened.inc({ backend, model });
    const level = breaker === 'open' ? 'warn' : 'info';
    log[level]({ backend, model, breaker }, 'a breaker has changed');
  }

  function openShares(): Shares {
    const pauses = owned.use(
      followOperatorPauses({
        backendPauses: createBackendPauses(redis),
        log,
        called: () => [...slots.called().keys()],
        set(backend, leftMs) {
          if (slots.pauses.setByOperator(backend, leftMs)) slots.sharesChanged();
        },
      }),
    );
    const opened = startShares({
      redis,
      workerId,
      pools,
      shutdown,
      log,
      uses: () => slots.uses(shutdown.aborted),
      takeNews: slots.pauses.takeNews,
      keepNews: slots.pauses.keepNews,
      onRenewed(pauses) {
        for (const [backend, pause] of pauses) slots.pauses.merge(backend, pause);
        slots.sharesChanged();
        deps.onRenewed();
      },
    });
    shares = opened;
    return { ...opened, renewed: Promise.all([opened.renewed, pauses.look()]).then(() => {}) };
  }

  return {
    slots,
    startShares: openShares,
    [Symbol.dispose]: () => owned.dispose(),
  };
}
