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

const unreadCharactersMax = 8_388_608;

type Options = { level: string; process: string; forTerminal?: boolean };

/**
 * `process` is which kind of process speaks: `ingress`, `worker` or `reconcile`. One that somebody runs on a terminal has its
 * own words on standard output, so its log goes to standard error, and tells of an error what it says, not where it was thrown.
 */
export function createLog({ level, process, forTerminal = false }: Options): Log {
  return pino(
    {
      level,
      base: { process },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: { streamWrite: maskKeys },
      ...(forTerminal && { serializers: { err: messageOf } }),
    },
    // Lines that come while one is written leave together. What is not written yet is at the process's end, unless it is killed;
    // of what nobody reads for long the newest is dropped.
    pino.destination({ dest: forTerminal ? 2 : 1, sync: forTerminal, maxLength: unreadCharactersMax }),
  );
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const message = error.message || error.name; // of several addresses that fail there is none
  return error.cause === undefined ? message : `${message} (${messageOf(error.cause)})`;
}
