import { ApiError, validationError } from '../errors.ts';
import type { Decision } from '../store/documents.ts';
import { type Account, type Change, type MonthTopUp, monthOf, type Origin } from '../store/records/account.ts';

const changesMax = 200;
export const topUpsMadeMax = 500;
/** Sums of top-ups and usage of a month stay exact integers in JavaScript and Lua. */
const monthTopUpMax = 1e15;

/** Adds `tokens` to the allowance of the month in which it is made, once per `id`. */
type TopUp = NonNullable<Change['topUp']>;

export type Settings = {
  plan?: string | undefined;
  overageEnabled?: boolean | undefined;
  /** Null removes the bound. */
  overageTokensMax?: number | null | undefined;
  topUp?: TopUp | undefined;
  suspended?: boolean | undefined;
};

type SettingsChange = {
  settings: Settings;
  at: Date;
  by: string;
  origin?: Origin;
  /** The code that the top-up is of. */
  codeRedeemed?: Change['codeRedeemed'];
  unknown?: { id: string; plan: string };
};

/**
 * Applies settings. A value that the account already has is no change, nor is a top-up that was made before. An unknown
 * account is created from `unknown`, so that a user without a key can be suspended, too; the result is undefined if `unknown` is omitted.
 * Fails with `CONFLICT` if a top-up with the same id had another number of tokens, and with `VALIDATION_ERROR` if the top-ups of a month
 * would exceed `monthTopUpMax`.
 */
export function changeSettings({ settings, at, by, origin, codeRedeemed, unknown }: SettingsChange) {
  return (known: Account | undefined): Decision<Account, Account | undefined> => {
    const account = known ?? (unknown && newAccount(unknown.id, unknown.plan, at));
    if (account === undefined) return { result: undefined };
    const { topUp } = settings;
    const isMade = topUp !== undefined && wasMade(account, topUp);
    const ofTopUp = topUp === undefined || isMade ? {} : { topUp, ...(codeRedeemed && { codeRedeemed }) };
    const changes = { ...differences(account, settings), ...ofTopUp };
    if (Object.keys(changes).length === 0) return { result: known };
    const next = changed(applied(account, changes, at), { at, by, ...changes, ...(origin && { origin }) });
    return { result: next, next };
  };
}

type ChangedSettings = Pick<Change, 'plan' | 'overageEnabled' | 'overageTokensMax' | 'topUp' | 'suspended'>;

function differences(account: Account, settings: Settings): ChangedSettings {
  const bound = account.overageTokensMax ?? null;
  const { overageTokensMax = bound } = settings;
  const { plan = account.plan, overageEnabled = account.overageEnabled, suspended = account.suspended } = settings;
  return {
    ...(plan === account.plan ? {} : { plan: { from: account.plan, to: plan } }),
    ...(overageEnabled === account.overageEnabled ? {} : { overageEnabled }),
    ...(overageTokensMax === bound ? {} : { overageTokensMax }),
    ...(suspended === account.suspended ? {} : { suspended }),
  };
}

function applied(account: Account, changes: ChangedSettings, at: Date): Account {
  const { plan, overageEnabled, overageTokensMax, topUp, suspended } = changes;
  const { overageTokensMax: before, ...others } = account;
  const bound = overageTokensMax === undefined ? before : (overageTokensMax ?? undefined);
  return {
    ...others,
    ...(bound !== undefined && { overageTokensMax: bound }),
    plan: plan?.to ?? account.plan,
    overageEnabled: overageEnabled ?? account.overageEnabled,
    suspended: suspended ?? account.suspended,
    ...(topUp && {
      topUp: addTopUp(account.topUp, topUp, monthOf(at)),
      topUpsMade: [topUp, ...account.topUpsMade].slice(0, topUpsMadeMax),
    }),
  };
}

function wasMade({ topUpsMade }: Account, { id, tokens }: TopUp): boolean {
  const made = topUpsMade.find((each) => each.id === id);
  if (made !== undefined && made.tokens !== tokens)
    throw new ApiError('CONFLICT', `The top-up "${id}" was made with another number of tokens.`);
  return made !== undefined;
}

/** A top-up that was decided in one month and written in the next counts in the next one, if another top-up has begun it. */
function addTopUp(before: MonthTopUp | undefined, { tokens }: TopUp, now: string): MonthTopUp {
  if (before === undefined || before.month < now) return { month: now, tokens };
  const sum = before.tokens + tokens;
  if (sum > monthTopUpMax)
    throw validationError([{ path: 'topUp.tokens', message: `a month's top-ups are at most ${monthTopUpMax}` }]);
  return { month: before.month, tokens: sum };
}

export function newAccount(id: string, plan: string, createdAt: Date): Account {
  const settings = { plan, suspended: false, overageEnabled: false, version: 0 };
  return { id, ...settings, createdAt, topUpsMade: [], keys: [], changes: [] };
}

/**
 * A removed account is in use again, unless an operator only ends what it still has. What is older than a removal that is not done is
 * removed nevertheless.
 */
export function changed({ removal: before, ...account }: Account, change: Change): Account {
  const isEnd = change.batchCancelled !== undefined || change.requestEnded !== undefined;
  const removal = isEnd || before === undefined ? before : before.isDone ? undefined : { ...before, isUsed: true };
  const kept = { ...account, ...(removal && { removal }) };
  return { ...kept, version: account.version + 1, changes: [change, ...account.changes].slice(0, changesMax) };
}
