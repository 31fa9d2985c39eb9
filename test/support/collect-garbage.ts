import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}

/** Bytes of the heap in use after a garbage collection. */
export function heapInUse(): number {
  garbageCollector()();
  return process.memoryUsage().heapUsed;
}

/** Returns whether the object is garbage-collected within 20 turns. The test does not wait for later events. */
export async function untilCollected(reference: WeakRef<object>): Promise<boolean> {
  const collect = garbageCollector();
  for (let turn = 0; turn < 20 && reference.deref() !== undefined; turn++) {
    // An object is kept until the end of the turn in which it was last dereferenced.
    await nextTurn();
    collect();
  }
  return reference.deref() === undefined;
}
