import type { StackOptions } from '../stack/stack.ts';
import type { Percentile } from './judge.ts';

/** The attacker's knowledge of the service. */
export type Target = {
  port: number;
  issuer: string;
  /** The audience of sign-in tokens. */
  audience: string;
  /** One key of each of the attacker's accounts, and a sign-in token of each. */
  keys: readonly string[];
  tokens: readonly string[];
};

/** How often each outcome occurred, by a short name: `413 PAYLOAD_TOO_LARGE`, `closed`. */
export type Tally = Record<string, number>;

/** The context of an attack, in its own process. */
export type Attacker = {
  target: Target;
  /** Aborted when the attack is over. */
  signal: AbortSignal;
  count: (what: string) => void;
};

type StackNeeds = Pick<StackOptions, 'env' | 'models' | 'guests' | 'backends' | 'plans' | 'webhooks'>;

/** Disposed of after the attack. */
export type Preparation = AsyncDisposable & { stack: StackNeeds };

export type Attack = {
  /** A number, followed by a letter if several attacks share the number. */
  id: string;
  name: string;
  /** What the attacker does, from how many connections, and at which maximum rate. */
  does: string;
  /** How many accounts the attacker has. Default: none. */
  accounts?: number;
  /** Their plan. Default: the default plan. */
  plan?: string;
  /** The stack options that this attack needs. */
  stack?: StackNeeds;
  /** The same, if the attack also needs something that runs beside the stack. */
  prepare?: () => Promise<Preparation>;
  /** The duration of the attack. Default: 15 s. */
  forMs?: number;
  /** Outcomes. The attack lasts until each has occurred, but at most a minute longer: a busy machine gives it little time. */
  reaches?: readonly string[];
  /** Who uses the service in addition to the usual callers: accounts that it has not seen before, or an upload each second. */
  others?: 'newClients' | 'uploads';
  /** Which wait of the others may be three times as long. Default: the median. */
  judgedBy?: Percentile;
  /** The `maxmemory` of Redis. Default: none. */
  redisMiBMax?: number;
  /** Runs in the attacker's process until the signal is aborted. */
  run: (attacker: Attacker) => Promise<void>;
  /** What the attacker got without permission, as messages. */
  gains?: (tally: Tally) => string[];
};

/** The attacker's own address. Legitimate callers have 127.0.0.1. */
export const attackerAddress = '127.0.0.2';
