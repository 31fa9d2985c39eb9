import { setTimeout as sleep } from 'node:timers/promises';
import { linesOf, openBatchClient } from '../support/batch-client.ts';
import type { TrafficParts } from './traffic.ts';

/** Of each batch. */
export const lines = 100;
const everyMs = 5_000;
const endsWithinMs = 60_000;

/** Submits one batch after another, cancels some of them, and deletes their files. */
export async function submitBatches(parts: TrafficParts & { key: string }): Promise<void> {
  const { stack, random, count, answered, attempt, signal, key } = parts;
  const user = await openBatchClient(stack, 'soak-batches', key);

  async function submit(): Promise<void> {
    const { id, input_file_id } = await user.create(linesOf(lines));
    if (random() < 0.2) await user.client.batches.cancel(id).catch(() => undefined); // it may have ended already
    const batch = await user.ended(id, endsWithinMs);
    count(`batch: ${batch.status}`);
    for (const { response } of await user.output(batch)) answered(response?.request_id ?? '');
    for (const file of [input_file_id, batch.output_file_id, batch.error_file_id]) {
      if (file != null) await user.client.files.delete(file);
    }
  }

  while (!signal.aborted) {
    await attempt('batches', submit);
    await sleep(everyMs, undefined, { signal }).catch(() => {});
  }
}
