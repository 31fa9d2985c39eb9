import type { ApplyTopUpCode } from '../shared/account-changes/apply-top-up-code.ts';
import type { ChangeAccount, RecordedChange } from '../shared/account-changes/change-account.ts';
import type { ClearAccount } from '../shared/account-changes/remove-account.ts';
import type { AffinityKeys } from '../shared/endpoints/affinity-keys.ts';
import type { BackendPauses } from '../shared/fleet/backend-pauses.ts';
import type { FleetCounts } from '../shared/fleet/fleet-counts.ts';
import type { FleetProcess } from '../shared/fleet/note-process.ts';
import type { KeptAnswers } from '../shared/jobs/idempotency.ts';
import type { LimitCounters } from '../shared/limits/admission.ts';
import type { SuspensionWatch } from '../shared/limits/watch-suspensions.ts';
import type { PlanFile } from '../shared/plan-file/plan-file.ts';
import type { Log } from '../shared/process/log.ts';
import type { PlanFileStatus } from '../shared/process/watch-plan-file.ts';
import type { Redis } from '../shared/redis/connections.ts';
import type { Caller } from '../shared/store/records/account.ts';
import type { Store } from '../shared/store/records/store.ts';
import type { Tracing } from '../shared/tracing/span.ts';
import type { AddressRules } from '../shared/webhooks/webhook-address.ts';
import type { WebhookSecrets } from '../shared/webhooks/webhook-secrets.ts';
import type { Callers, SharedCallers } from './authentication/callers.ts';
import type { GuestKeys } from './authentication/change-keys.ts';
import type { CheckCaller } from './authentication/check-caller.ts';
import type { KeyUse } from './authentication/key-use.ts';
import type { LimitMints } from './authentication/limit-mints.ts';
import type { DisplayNames, SignIn } from './authentication/sign-in.ts';
import type { InsertWithRoom } from './files/account-room.ts';
import type { CopyLines } from './files/copy-lines.ts';
import type { UploadFile } from './files/upload-file.ts';
import type { RefusalCounts } from './limits/count-refusals.ts';
import type { LimitPeaksOf } from './limits/limit-peaks.ts';
import type { LimitCalls, LimitFailures } from './limits/minute-counts.ts';
import type { BodyBudget, LargeBodies, RefusedBodies } from './listener/body-budget.ts';
import type { IngressMetrics } from './metrics.ts';
import type { KnownFleet } from './open-plan-file.ts';
import type { Console, Documentation } from './pages/made-pages.ts';
import type { SharedAssets } from './pages/shared-assets.ts';
import type { StaticContent } from './pages/static-content.ts';
import type { QueueBounds } from './queue/queue-bounds.ts';
import type { observeQueues } from './queue/queue-depths.ts';
import type { QueueTurns, RequestQueues } from './queue/queue-turns.ts';
import type { WaitingRequests } from './replies/waiting-requests.ts';
import type { RequestLookUp } from './requests/find-requests.ts';
import type { HourSums } from './requests/hour-sums.ts';
import type { RequestsToEnd } from './requests/requests-to-end.ts';

/** What the stages and routes of the public listener use. */
export type AppParts = {
  log: Log;
  store: Store;
  redis: Redis;
  http: HttpParts;
  authentication: AuthenticationParts;
  queue: QueueParts;
  operators: OperatorParts;
  pages: PageParts;
};

/** What every request needs, the addresses of this service, uploads, and what webhooks may reach. */
export type HttpParts = {
  metrics: IngressMetrics;
  refusals: Pick<RefusalCounts, 'count'>;
  fleetCounts: Pick<FleetCounts, 'add'>;
  /** Undefined if requests are not traced. */
  tracing: Tracing | undefined;
  currentPlanFile: () => PlanFile;
  baseUrl: string;
  docsUrl: string;
  consoleUrl: string;
  topupUrl: string;
  securityHeaders: Readonly<Record<string, string>>;
  trustedProxyHops: number;
  body: BodyParts;
  uploadFile: UploadFile;
  copyLines: CopyLines;
  /** `secrets` is undefined if the operator has not enabled webhooks. */
  webhooks: { secrets: Pick<WebhookSecrets, 'seal'> | undefined; rules: AddressRules };
};

/** What reading bodies needs. `giveUp` is aborted when a shutdown stops waiting, with the `ApiError` for clients. */
type BodyParts = {
  bodyBytesMax: number;
  bodyMs: number;
  giveUp: AbortSignal;
  budget: BodyBudget;
  refusedBodies: RefusedBodies;
  largeBodies: LargeBodies;
};

/** Who calls, what changes accounts and keys, and the limits of callers that are not known yet. */
export type AuthenticationParts = {
  peppers: readonly string[];
  signIn: SignIn;
  callers: Callers;
  sharedCallers: SharedCallers;
  checkCaller: CheckCaller;
  displayNames: DisplayNames;
  guestKeys: GuestKeys;
  keyUse: KeyUse;
  changeAccount: ChangeAccount;
  changeRecorded: RecordedChange;
  clearAccount: ClearAccount;
  applyTopUpCode: ApplyTopUpCode;
  limitAuthFailures: LimitFailures;
  limitCodeFailures: LimitFailures;
  limitGuestCalls: LimitCalls;
  /** Counts a write of an account's own keys or settings. Fails with `rate_limit_exceeded` if there are too many within a minute. */
  limitSettingsWrites: (account: string) => Promise<void>;
  limitMints: LimitMints;
  limitPeaks: Pick<LimitPeaksOf, 'note' | 'read'>;
};

/** Requests and batches on their way to workers, and their replies. */
type QueueParts = {
  queues: RequestQueues;
  queueTurns: Pick<QueueTurns, 'next' | 'taken'>;
  queueBounds: QueueBounds;
  waitingRequests: WaitingRequests;
  /** This ingress's reply stream, undefined while it has none. */
  replyTo: () => string | undefined;
  suspensions: Pick<SuspensionWatch, 'follow'>;
  requestsToEnd: RequestsToEnd;
  requestLookUp: RequestLookUp;
  keptAnswers: Pick<KeptAnswers, 'open'>;
  insertWithRoom: InsertWithRoom;
  affinityKeys: AffinityKeys;
};

/** What operators see and change beside accounts. */
export type OperatorParts = {
  planFileStatus: () => PlanFileStatus;
  /** The processes that are alive. */
  processes: () => readonly FleetProcess[];
  fleet: KnownFleet & Pick<ReturnType<typeof observeQueues>, 'depths' | 'poolWorkers'>;
  /** Requests that may wait in the queue of one model (QUEUE_DEPTH_MAX). */
  queueDepthMax: number;
  backendPauses: BackendPauses;
  /** The usage of hours over all accounts. */
  hourSums: HourSums;
  /** Reads an account as it is now, and the counters of its limits, which admission decides with. */
  readCountersOf: (account: string) => Promise<{ caller: Caller; counters: LimitCounters }>;
};

/** What is served beside the API. */
export type PageParts = {
  console: Console;
  documentation: Documentation;
  sharedAssets: SharedAssets;
  openApiDocument: StaticContent;
  planFileSchema: StaticContent;
};
