import { styleText } from 'node:util';
import { pino } from 'pino';
import { maskKeys, shorten } from '../json/texts.ts';

/** Structured lines on standard output: fields first, then a message. Never pass it a header, a body or a full key. */
export type Log = Pick<pino.Logger, 'debug' | 'info' | 'warn' | 'error' | 'fatal'>;

const unreadCharactersMax = 8_388_608;

type Options = { level: string; format: LogFormat; process: string; forTerminal?: boolean };

/** `pretty`: for people, without a promise about its form. */
export type LogFormat = 'json' | 'pretty';

/**
 * `process` is the kind of process that logs: `ingress`, `worker` or `reconcile`. A process for a terminal prints its own output to
 * standard output. So its log goes to standard error, and shows the messages of an error without the stack.
 */
export function createLog({ level, format, process: side, forTerminal = false }: Options): Log {
  const stream = forTerminal ? process.stderr : process.stdout;
  return pino(
    {
      level,
      base: { process: side },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      hooks: { streamWrite: format === 'json' ? maskKeys : (line) => prettyLine(maskKeys(line), stream) },
      serializers: {
        err: (error: unknown) => (forTerminal ? messagesOf(serializeError(error)) : serializeError(error)),
      },
    },
    // Lines that arrive during a write are written together. Pending lines are written when the process ends, unless it is killed. If the
    // output is not read for long, the newest lines are dropped.
    pino.destination({ dest: forTerminal ? 2 : 1, sync: forTerminal, maxLength: unreadCharactersMax }),
  );
}

/** The fields of an error in a log line; every length is bounded. */
type SerializedError = {
  type: string;
  message: string;
  stack?: string;
  code?: string | number;
  cause?: SerializedError;
};

const messageLengthMax = 2_048;
const stackLengthMax = 4_096;
const nameLengthMax = 64;
const causesMax = 3;

/**
 * Keeps only the type, message, stack, code and cause of an error, because libraries attach their input. The Redis client attaches the
 * failed command with its arguments, which can be a prompt or a password.
 */
function serializeError(error: unknown, causesLeft = causesMax): SerializedError {
  if (!(error instanceof Error)) return { type: typeof error, message: cutMessage(String(error)) };
  const { name, code, stack, cause } = error as Error & { code?: unknown }; // most errors have no code
  return {
    type: shorten(String(name), nameLengthMax),
    message: cutMessage(error.message || messagesWithin(error)),
    ...(stack !== undefined && { stack: shorten(framesOf(stack), stackLengthMax) }),
    ...(typeof code === 'string' && { code: shorten(code, nameLengthMax) }),
    ...(typeof code === 'number' && { code }),
    ...(cause !== undefined && causesLeft > 0 && { cause: serializeError(cause, causesLeft - 1) }),
  };
}

/** A failed connection to a name with several addresses has no message, only one error for each address. */
function messagesWithin(error: Error): string {
  if (!(error instanceof AggregateError)) return '';
  return error.errors.map((each) => (each instanceof Error ? each.message : '')).join('; ');
}

/** The JSON parser quotes the text around the place that it could not parse. */
function cutMessage(message: string): string {
  const unquoted = message.replace(/(?:\.\.\.)?".*"(?:\.\.\.)? is not valid JSON$/s, 'the text is not valid JSON');
  return shorten(unquoted, messageLengthMax);
}

/** V8 puts the message before the frames. */
function framesOf(stack: string): string {
  const start = stack.search(/^ {4}at /m);
  return start === -1 ? '' : stack.slice(start);
}

function messagesOf({ type, message, cause }: SerializedError): string {
  return cause === undefined ? message || type : `${message || type} (${messagesOf(cause)})`;
}

type Style = 'green' | 'yellow' | 'red' | 'dim';

const levelStyles: Readonly<Record<string, Style>> = {
  trace: 'dim',
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
  fatal: 'red',
};

/**
 * Formats a line of the log for people: time (UTC), level, process and message, then the other fields as `name=value`, and an error with
 * its stack below. It has colours only if `stream` is a terminal. Characters that control a terminal are escaped, because parts of a line
 * can come from clients and backends.
 */
function prettyLine(line: string, stream: NodeJS.WriteStream): string {
  const style = (format: Style, text: string) => styleText(format, text, { stream });
  const { time, level, process: side, msg = '', err, ...fields } = JSON.parse(line) as Record<string, unknown>; // pino writes objects
  const name = String(level);
  const head = `${String(time).slice(11, 23)} ${style(levelStyles[name] ?? 'dim', name.toUpperCase().padEnd(5))} ${side} ${escapeControls(String(msg))}`;
  const rest = Object.entries(fields).map(
    ([field, value]) => ` ${style('dim', `${escapeControls(field)}=`)}${shown(value)}`,
  );
  return `${head}${rest.join('')}${errorLines(err, 'error')}\n`;
}

function shown(value: unknown): string {
  if (typeof value === 'string' && /^[\w.:/@%+*-]+$/.test(value)) return value;
  return escapeControls(JSON.stringify(value));
}

function errorLines(error: unknown, label: string): string {
  if (typeof error === 'string') return `\n    ${label}: ${escapeControls(error)}`; // of a process for a terminal
  if (typeof error !== 'object' || error === null) return '';
  const { type, message, code, stack, cause } = error as Record<string, unknown>; // as the log serializes errors
  const head = `${label}: ${type}${code === undefined ? '' : ` (${code})`}: ${message}`;
  const frames = typeof stack === 'string' && stack !== '' ? stack.split('\n') : [];
  return [`    ${head}`, ...frames].map((text) => `\n${escapeControls(text)}`).join('') + errorLines(cause, 'cause');
}

/** Escapes control characters, and those that change the direction of text. */
function escapeControls(text: string): string {
  const escapeOne = (character: string) => `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, escapeOne);
}
