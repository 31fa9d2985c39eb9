import { pino } from 'pino';

/** Structured lines on standard output: fields first, then a sentence. Never given a header, a body or a full key. */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

/**
 * The key's checksum part included; what remains is its masked form (API C3). Whatever stands around it: in JSON a line
 * break before a key is `\n`, in a URL a space is `%20`, and neither is the boundary of a word.
 */
const fullKey = /svc_([0-9A-Za-z]{6})[0-9A-Za-z]{32,}/g;

/** Whatever slips into a message or an error all the same: a full key leaves this process masked. */
export function maskKeys(line: string): string {
  return line.replace(fullKey, 'svc_$1****');
}

/** `process` is which kind of process speaks: `ingress` or `worker`. */
export function createLog({ level, process }: { level: string; process: string }): Log {
  return pino({
    level,
    base: { process },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    hooks: { streamWrite: maskKeys },
  });
}
