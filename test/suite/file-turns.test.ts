import test, { type ExecutionContext } from 'ava';
import { afterTests, beforeTests, inFileTurn, inTurn, runFilesInTurn } from './file-turns.ts';

/** Declares a file that writes its steps to `steps`. `outcomes` returns how its tests and its last hook end. */
function declareFile(path: string, { steps, failing = '' }: { steps: string[]; failing?: string }) {
  const step = (name: string) => async () => {
    steps.push(`${path} ${name} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    steps.push(`${path} ${name} ends`);
    if (name === failing) throw new Error(`${path} ${name}`);
  };
  beforeTests(path, step('before'));
  const tests = [
    inFileTurn(path, { isSerial: false, run: step('concurrent 1') }),
    inFileTurn(path, { isSerial: false, run: step('concurrent 2') }),
    inFileTurn(path, { isSerial: true, run: step('serial 1') }),
    inFileTurn(path, { isSerial: true, run: step('serial 2') }),
  ];
  const hook = afterTests(path, step('after'));
  return {
    /** Starts all tests at once, as AVA does. */
    outcomes: async () => {
      const ended = await Promise.allSettled([...tests.map(runAsAva), hook()]);
      return ended.map((one) => (one.status === 'rejected' ? one.reason.message : 'passed'));
    },
  };
}

/** Runs a test and then its teardowns, the last one first. `t.timeout(0)` ends a test that hangs. */
async function runAsAva(declared: (t: ExecutionContext) => unknown): Promise<unknown> {
  const teardowns: (() => unknown)[] = [];
  const late = Promise.withResolvers<never>();
  const t = {
    teardown: (run: () => unknown) => teardowns.push(run),
    timeout: () => late.reject(new Error('late')),
  } as unknown as ExecutionContext; // the only methods that these tests use
  try {
    return await Promise.race([declared(t), late.promise]);
  } finally {
    for (const teardown of teardowns.toReversed()) await teardown();
  }
}

test.serial('the next test starts after the teardowns of the one before it, even if that one hangs', async (t) => {
  const steps: string[] = [];
  const serial = (name: string, end: (t: ExecutionContext) => unknown) =>
    inFileTurn('hanging', {
      isSerial: true,
      run: (context) => {
        context.teardown(async () => {
          await new Promise((resolve) => setImmediate(resolve));
          steps.push(`${name} teardown`);
        });
        steps.push(name);
        return end(context);
      },
    });
  const hangs = serial('hangs', (context) => {
    context.timeout(0);
    return new Promise(() => {});
  });
  const follows = serial('follows', () => 'passed');
  const outcomes = Promise.allSettled([runAsAva(hangs), runAsAva(follows)]);
  await runFilesInTurn();
  t.deepEqual(
    (await outcomes).map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
  t.deepEqual(steps, ['hangs', 'hangs teardown', 'follows', 'follows teardown']);
});

test.serial('each file has its turn, independently of failures in others', async (t) => {
  const steps: string[] = [];
  const files = [
    declareFile('a', { steps }),
    declareFile('b', { steps, failing: 'before' }),
    declareFile('c', { steps, failing: 'serial 1' }),
    declareFile('d', { steps, failing: 'after' }),
  ];
  const outcomes = Promise.all(files.map((file) => file.outcomes()));
  await runFilesInTurn();

  const passed = 'passed';
  t.deepEqual(await outcomes, [
    [passed, passed, passed, passed, passed],
    ['b before', 'b before', 'b before', 'b before', passed],
    [passed, passed, 'c serial 1', passed, passed],
    [passed, passed, passed, passed, 'd after'],
  ]);
  const whole = (path: string, ...names: string[]) =>
    names.flatMap((name) => [`${path} ${name} begins`, `${path} ${name} ends`]);
  const tested = (path: string) => [
    ...whole(path, 'before', 'serial 1', 'serial 2'),
    ...['begins', 'ends'].flatMap((how) => [`${path} concurrent 1 ${how}`, `${path} concurrent 2 ${how}`]),
    ...whole(path, 'after'),
  ];
  t.deepEqual(steps, [...tested('a'), ...whole('b', 'before', 'after'), ...tested('c'), ...tested('d')]);
});

test.serial('between tests that compute, others have their turn of the event loop', async (t) => {
  let hadItsTurn = false;
  setImmediate(() => {
    hadItsTurn = true;
  });
  await Promise.all(Array.from({ length: 100 }, () => inTurn('computing', () => {})));
  t.true(hadItsTurn);
});
