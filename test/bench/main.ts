import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startStack } from '../stack/stack.ts';
import { unlimitedKey } from '../support/load.ts';
import { type Load, measureLoad, measureOneClient, median, type Target } from './measure.ts';
import { measureOverload } from './overload.ts';

const usage = `Usage: npm run bench [-- --rounds 5 --seconds 5]
Compares this service with a bare Koa proxy in front of the same model server of 0 ms, in turns, on this machine; then offers
it three times what its backends can take.`;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '5' },
    help: { type: 'boolean', default: false },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
if (values.help || !(rounds >= 1) || !(seconds >= 1)) {
  console.log(usage);
  process.exit(values.help ? 0 : 2);
}

const rows = [
  { name: '1 client', measure: (target: Target) => measureOneClient(target, { seconds }) },
  { name: '64 clients', measure: (target: Target) => measureLoad(target, { clients: 64, seconds }) },
];

await compare();
await overload();

async function compare(): Promise<void> {
  await using stack = await startStack({ modelServers: { splitBytes: false } });
  using proxy = await startBareProxy(stack.modelServers[0].url);
  const body = JSON.stringify({ model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] });
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${await unlimitedKey(stack, 'bench')}` };
  const path = '/v1/chat/completions';
  const bare = { url: `http://127.0.0.1:${proxy.port}${path}`, headers, body };
  const ours = { url: `${stack.ingresses[0]?.url}${path}`, headers, body };

  for (const { name, measure } of rows) {
    console.error(`${name}: warming up …`);
    await measure(bare);
    await measure(ours);
    const pairs: { bare: Load; ours: Load }[] = [];
    for (let round = 1; round <= rounds; round++) {
      pairs.push({ bare: await measure(bare), ours: await measure(ours) });
      console.error(`${name}: round ${round} of ${rounds}`);
    }
    report(name, pairs);
  }
}

async function overload(): Promise<void> {
  console.error('overload …');
  const loads = await measureOverload({ seconds: 3 * seconds });
  console.log('\nOverload: more requests than the slots of the backends, at a fixed pace');
  console.table(
    Object.fromEntries(
      Object.entries(loads).map(([name, load]) => [
        name,
        {
          'served/s': load.servedPerSecond.toFixed(1),
          'p50, ms': load.servedP50Ms.toFixed(0),
          'p99, ms': load.servedP99Ms.toFixed(0),
          'refused/s': load.refusedPerSecond.toFixed(1),
          'refused p50, ms': load.refusedP50Ms.toFixed(1),
          'refused p99, ms': load.refusedP99Ms.toFixed(0),
          failed: load.failed,
          'CPU busy': `${(100 * load.cpu).toFixed(0)}%`,
        },
      ]),
    ),
  );
}

/** Medians over the rounds; a ratio is taken within each round first, because the machine's speed drifts between them. */
function report(name: string, pairs: readonly { bare: Load; ours: Load }[]): void {
  const medianOf = (side: 'bare' | 'ours', figure: keyof Load) => median(pairs.map((pair) => pair[side][figure]));
  const ratioOf = (figure: keyof Load) => median(pairs.map((pair) => pair.ours[figure] / pair.bare[figure]));
  const line = (label: string, figure: keyof Load, digits: number) => ({
    [label]: {
      'bare Koa proxy': medianOf('bare', figure).toFixed(digits),
      'this service': medianOf('ours', figure).toFixed(digits),
      ratio: ratioOf(figure).toFixed(3),
    },
  });
  const failedOf = (side: 'bare' | 'ours') => String(pairs.reduce((sum, pair) => sum + pair[side].failed, 0));
  const failed = { failed: { 'bare Koa proxy': failedOf('bare'), 'this service': failedOf('ours') } };
  console.log(`\n${name}, whole answers, medians of ${pairs.length} rounds of ${seconds} s`);
  console.table({
    ...line('requests/s', 'requestsPerSecond', 0),
    ...line('p50, ms', 'p50Ms', 2),
    ...line('p99, ms', 'p99Ms', 2),
    ...failed,
  });
}

async function startBareProxy(backendUrl: string): Promise<Disposable & { port: number }> {
  const file = fileURLToPath(new URL('./bare-proxy.ts', import.meta.url));
  const child: ChildProcess = fork(file, [backendUrl]);
  const [message] = (await once(child, 'message')) as [{ port: number }]; // the one message that the proxy sends
  return { port: message.port, [Symbol.dispose]: () => child.kill() };
}
