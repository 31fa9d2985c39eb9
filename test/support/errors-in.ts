import type { LogLine } from '../stack/service-process.ts';
import type { Stack } from '../stack/stack.ts';

/** What the ingresses of a stack have logged as an error. */
export function errorsIn({ ingresses }: Stack): LogLine[] {
  return ingresses.flatMap(({ process }) => process.logs.filter(({ level }) => level === 'error' || level === 'fatal'));
}
