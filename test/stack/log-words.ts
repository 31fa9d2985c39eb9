import type { LogLine } from './service-process.ts';

/** One line for a terminal. `isWarning`: it belongs on standard error. */
type Words = { text: string; isWarning: boolean };

/** The same words are not repeated for this long: a failure comes with each request. */
const quietMs = 60_000;
const textsKept = 1_000;
const textLengthMax = 500;

/**
 * Returns what a developer needs to see of the logs of a stack: warnings and errors, with backend, model and reason; breakers that have
 * changed; another plan file; and what Node prints when it watches a process. Undefined for every other line. `now`: milliseconds of a
 * monotonic clock.
 */
export function createLogWords(now: () => number = () => performance.now()) {
  const shownAt = new Map<string, number>();
  const restarted = new Set<string>();
  const paused = new Set<string>();

  /** A breaker that tests a backend again and again is paused all the time. */
  function breakerWords({ backend, model, breaker }: LogLine): string | undefined {
    const place = `${backend} for ${model}`;
    if (breaker === 'half-open' || paused.has(place) === (breaker === 'open')) return undefined;
    if (breaker !== 'open') paused.delete(place);
    else paused.add(place);
    return breaker === 'open'
      ? `${place} is paused after failures (breaker open); it gets one test call every few seconds`
      : `${place} answers again (breaker ${breaker})`;
  }

  function isNew(text: string): boolean {
    const time = now();
    if (time - (shownAt.get(text) ?? Number.NEGATIVE_INFINITY) < quietMs) return false;
    if (shownAt.size >= textsKept) shownAt.clear();
    shownAt.set(text, time);
    return true;
  }

  function say(from: string, line: LogLine): Words | undefined {
    const { level, msg = '' } = line;
    if (level === undefined) restarted.add(from);
    if (level === undefined || (restarted.has(from) && msg === 'ready'))
      return { text: `${from}: ${msg}`, isWarning: false };
    if (msg === 'a breaker has changed') {
      const text = breakerWords(line);
      return text === undefined ? undefined : { text: `${from}: ${text}`, isWarning: line.breaker === 'open' };
    }
    if (msg === 'the plan file was replaced' && typeof line.backends === 'number')
      return {
        text: `plan file changed: ${counted(line.backends, 'backend')}, ${counted(Number(line.models), 'model')}`,
        isWarning: false,
      };
    if (!['warn', 'error', 'fatal'].includes(level)) return undefined;
    const text = warningWords(from, line);
    return isNew(text) ? { text, isWarning: true } : undefined;
  }

  return function logWords(from: string, line: LogLine): Words | undefined {
    const words = say(from, line);
    // Parts of a line can come from model servers: what controls a terminal is no text.
    return words && { ...words, text: words.text.slice(0, textLengthMax).replace(/\p{Cc}+/gu, ' ') };
  };
}

/** Ingress and worker read the same plan file: what is wrong with it is said once, without the process. */
function warningWords(from: string, line: LogLine): string {
  const { msg = '', issues = line.warnings } = line;
  if (Array.isArray(issues)) return `${msg}: ${issues.join('; ')}`;
  if (msg === 'a backend failed') return `${from}: ${line.backend} failed for ${line.model}: ${failureIn(line)}`;
  const { message } = errorIn(line);
  return `${from}: ${msg}${message === undefined ? '' : ` (${message})`}`;
}

/** `HTTP 503`, or the words of the error with its code. */
function failureIn(line: LogLine): string {
  if (typeof line.status === 'number') return `HTTP ${line.status}`;
  const { message = 'no reason is known', code, cause } = errorIn(line);
  const known = code ?? cause?.code;
  return known === undefined ? message : `${message} (${known})`;
}

type LoggedError = { message?: string; code?: string; cause?: LoggedError };

function errorIn({ err }: LogLine): LoggedError {
  return (err ?? {}) as LoggedError; // pino's form of an error
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}
