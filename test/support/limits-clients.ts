import { z } from 'zod';
import { createLimitsClient, type Report, taskSchema } from './limits-client.ts';
import { seededRandom } from './seeded-random.ts';

/** A process of its own: connects its clients, says `ready`, and on the next message has all of them run at once. */
const startSchema = z.object({ task: taskSchema, clients: z.int(), process: z.int() });

process.once('disconnect', () => process.exit()); // whoever would hear of it has gone
process.once('message', async (message: unknown) => {
  const { task, clients, process: number } = startSchema.parse(message);
  const connected = await Promise.all(
    Array.from({ length: clients }, (_, index) =>
      createLimitsClient(task, { name: `${number}-${index}`, random: seededRandom(number * 1_000 + index) }),
    ),
  );
  process.once('message', async () => {
    const reports = await Promise.all(connected.map((client) => client.run()));
    for (const client of connected) client[Symbol.dispose]();
    process.send?.(reports satisfies Report[]);
    process.disconnect();
  });
  process.send?.('ready');
});
