import { z } from 'zod';
import { createLimitsClient, type LimitsClient, type Report, taskSchema } from './limits-client.ts';
import { seededRandom } from './seeded-random.ts';

/** A separate process that runs one task after the other: connects its clients, prints `ready`, and on `go` runs all at once. */
const startSchema = z.object({ task: taskSchema, clients: z.int(), process: z.int() });

let connected: LimitsClient[] = [];

process.once('disconnect', () => process.exit()); // the parent process has exited
process.on('message', (message: unknown) => (message === 'go' ? run() : connect(message)));

async function connect(message: unknown): Promise<void> {
  const { task, clients, process: number } = startSchema.parse(message);
  connected = await Promise.all(
    Array.from({ length: clients }, (_, index) =>
      createLimitsClient(task, { name: `${number}-${index}`, random: seededRandom(number * 1_000 + index) }),
    ),
  );
  process.send?.('ready');
}

async function run(): Promise<void> {
  const reports = await Promise.all(connected.map((client) => client.run()));
  for (const client of connected) client[Symbol.dispose]();
  process.send?.(reports satisfies Report[]);
}
