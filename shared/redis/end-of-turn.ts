const gathering: (() => void)[] = [];
const writing: (() => void)[] = [];
let isScheduled = false;

/**
 * Runs a task at the end of this turn of the event loop, after its events are handled. `gather` tasks run first and issue the last commands
 * of the turn; `write` tasks then send all commands together.
 */
export function atEndOfTurn(task: () => void, step: 'gather' | 'write'): void {
  (step === 'gather' ? gathering : writing).push(task);
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(endTurn);
}

function endTurn(): void {
  isScheduled = false;
  for (const task of gathering.splice(0)) task();
  for (const task of writing.splice(0)) task();
}
