import { lastUserText, type Message } from './text.ts';

/** A call of a tool, with its arguments as JSON. */
export interface TaskStep {
  readonly name: string;
  readonly arguments: string;
}

const step = /\bcall ([\w-]+) with (\{.*?\})(?= then call |$)/gm;

/**
 * The step of a task that comes next. The last user message states it as `call <name> with <JSON> then call <name> with <JSON>`, and each
 * step is taken after the result of the one before. `none`: it states no task; `done`: every step has a result.
 */
export function nextStep(messages: readonly Message[]): TaskStep | 'none' | 'done' {
  const steps = Array.from(lastUserText(messages).matchAll(step), ([, name = '', json = '']) => ({
    name,
    arguments: json,
  }));
  if (steps.length === 0) return 'none';
  const asked = messages.findLastIndex(({ role }) => role === 'user');
  const results = messages.slice(asked).filter(({ role }) => role === 'tool').length;
  return steps[results] ?? 'done';
}
