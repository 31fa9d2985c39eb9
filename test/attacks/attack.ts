import type { StackOptions } from '../stack/stack.ts';

/** What the attacker knows of the service. */
export type Target = {
  port: number;
  issuer: string;
  /** What sign-in tokens are for. */
  audience: string;
  /** One key of each of the attacker's accounts. */
  keys: readonly string[];
};

/** How often each thing came, by a few words: `413 PAYLOAD_TOO_LARGE`, `closed`. */
export type Tally = Record<string, number>;

/** What an attack works with, in a process of its own. */
export type Attacker = {
  target: Target;
  /** Aborted when the attack is over. */
  signal: AbortSignal;
  count: (what: string) => void;
};

type StackNeeds = Pick<StackOptions, 'env' | 'models' | 'guests' | 'backends'>;

/** Ends with the attack. */
export type Prepared = AsyncDisposable & { stack: StackNeeds };

export type Attack = {
  /** A number, and a letter if several attacks have it. */
  id: string;
  name: string;
  /** What the attacker does, from how many connections, and at which rate at most. */
  does: string;
  /** How many accounts the attacker has; none by default. They are on the default plan, unless they have no limits. */
  accounts?: number;
  isUnlimited?: boolean;
  /** What this attack needs of the stack. */
  stack?: StackNeeds;
  /** The same, where it needs something that runs beside the stack. */
  prepare?: () => Promise<Prepared>;
  /** How long it goes on; 15 s by default. */
  forMs?: number;
  /** Who else uses the service, beside the callers of every attack: accounts that it has not seen before, or an upload each second. */
  others?: 'newcomers' | 'uploads';
  /** Runs in the attacker's process until the signal is aborted. */
  run: (attacker: Attacker) => Promise<void>;
  /** What the attacker got although it must not have, in words. */
  gains?: (tally: Tally) => string[];
};

/** The attacker's own address; legitimate callers have 127.0.0.1. */
export const attackerAddress = '127.0.0.2';
