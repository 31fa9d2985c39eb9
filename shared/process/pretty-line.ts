import { styleText } from 'node:util';

type Style = 'green' | 'yellow' | 'red' | 'dim';

const levelStyles: Readonly<Record<string, Style>> = {
  ...{ trace: 'dim', debug: 'dim', info: 'green', warn: 'yellow', error: 'red', fatal: 'red' },
};

/**
 * Formats a line of the log for people: time (UTC), level, process and message, then the other fields as `name=value`, and an error with
 * its stack below. It has colours only if `stream` is a terminal. Characters that control a terminal are escaped, because parts of a line
 * can come from clients and backends.
 */
export function prettyLine(line: string, stream: NodeJS.WriteStream): string {
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
