import type { LogLine } from '../stack/service-process.ts';
import type { RunningIngress } from '../stack/stack.ts';

/** What these ingresses have logged as errors. */
export function errorsIn(ingresses: readonly RunningIngress[]): LogLine[] {
  return ingresses.flatMap(({ process }) => process.logs.filter(({ level }) => level === 'error' || level === 'fatal'));
}
