import type { Log } from '../../shared/process/log.ts';

export type RecordedLine = { level: 'debug' | 'info' | 'warn' | 'error' | 'fatal'; fields: unknown; message: string };

/** A log that writes nothing and keeps its lines. */
export function recordedLog(): { log: Log; lines: RecordedLine[] } {
  const lines: RecordedLine[] = [];
  const record =
    (level: RecordedLine['level']) =>
    (fields: unknown, message = '') =>
      void lines.push({ level, fields, message });
  const log = {
    debug: record('debug'),
    info: record('info'),
    warn: record('warn'),
    error: record('error'),
    fatal: record('fatal'),
  };
  return { log: log as Log, lines }; // the service always calls them with fields and a sentence
}
