import { isDeepStrictEqual } from 'node:util';
import type { TestFn } from 'ava';
import { freePort } from '../stack/free-port.ts';
import { type Stack, type StackOptions, startStack } from '../stack/stack.ts';

/** Additions of a file to a stack that do not affect other files. */
type Additions = Required<Pick<StackOptions, 'plans' | 'models'>>;
type Options = Omit<StackOptions, 'directory' | 'ports' | 'redisUrl' | 'databaseUrl' | 'onLine'> & {
  /** Whether its ingress listens at its `baseUrl`, as a browser needs. */
  isAtBaseUrl?: boolean;
  /** Whether no other file uses it: its tests end processes. */
  isOwn?: boolean;
};
type Shared = { shape: Omit<Options, keyof Additions>; additions: Additions; started?: Promise<Stack>; users: number };

const shared: Shared[] = [];

/**
 * A stack for the tests of this file, shared with all files of its process that need the same one. Plans and models are merged. Accounts
 * and model servers' faults are shared, too: use your own accounts, and clear the faults that you set. A test that reads metrics or ends a
 * process needs its own stack (`isOwn`, or `startStack`).
 */
export function openSharedStack(test: TestFn, options: Options = {}) {
  const { plans = {}, models = {}, ...shape } = options;
  const isSame = (one: Shared) => isDeepStrictEqual(one.shape, shape) && agree(one.additions, { plans, models });
  const found = options.isOwn ? undefined : shared.find(isSame);
  const own: Shared = found ?? { shape, additions: { plans: {}, models: {} }, users: 0 };
  if (found === undefined) shared.push(own);
  Object.assign(own.additions.plans, plans);
  Object.assign(own.additions.models, models);
  own.users++;

  let stack: Stack;
  async function started(): Promise<Stack> {
    own.started ??= start(own);
    stack = await own.started;
    return stack;
  }
  test.before(async () => void (await started()));
  test.after.always(async () => {
    own.users--;
    if (own.users === 0) await (await own.started)?.[Symbol.asyncDispose]();
  });
  return {
    /** For hooks, which run concurrently with the one that starts it. */
    started,
    /** For tests. */
    stack: () => stack,
  };
}

async function start({ shape: { isAtBaseUrl, isOwn: _isOwn, ...shape }, additions }: Shared): Promise<Stack> {
  return startStack({ ...shape, ...additions, ...(isAtBaseUrl && { ports: { ingress: await freePort() } }) });
}

/** Whether both can be in one plan file. */
function agree(one: Additions, other: Additions): boolean {
  const agreeOn = (mine: Record<string, object>, others: Record<string, object>) =>
    Object.entries(others).every(([name, each]) => mine[name] === undefined || isDeepStrictEqual(mine[name], each));
  return agreeOn(one.plans, other.plans) && agreeOn(one.models, other.models);
}
