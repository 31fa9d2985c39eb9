const gathering: (() => void)[] = [];
const writing: (() => void)[] = [];
let isScheduled = false;

/**
 * Runs a task once this turn of the event loop has handled the events at hand. Tasks that `gather` make the last commands of the
 * turn; those that `write` come after them, so that all commands leave together.
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
