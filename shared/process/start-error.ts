import { once } from 'node:events';
import type { Server } from 'node:net';

/** Why a process cannot start, in one line for the operator: the setting, the address and what to do. It never contains a password. */
export class StartError extends Error {
  override readonly name = 'StartError';
}

type ListenOptions = {
  /** Whose port it is: a setting, or the name of a server. */
  name: string;
  host: string;
  port: number;
  /** What the operator can do. Default: to change the setting. */
  advice?: string;
};

/** Resolves when the server listens. Throws `StartError` if it cannot. */
export async function untilListening(server: Server, { name, host, port, advice }: ListenOptions): Promise<void> {
  try {
    await once(server, 'listening');
  } catch (error) {
    const reason = reasonOf(error);
    const found = reason === 'EADDRINUSE' ? 'is in use by another process' : `cannot be listened on (${reason})`;
    const change = advice ?? `End that process, or set ${name} to a free port`;
    throw new StartError(`${name}: ${host}:${port} ${found}. ${change}.`, { cause: error });
  }
}

/** The servers in a URL, `host:port` for each, without user and password. Empty if it names none, as for a file. */
export function serversIn(url: string): string {
  return /^[a-z+]+:\/\/(?:.*@)?([^/?#@]+)/i.exec(url)?.[1] ?? '';
}

/** The first code among an error and its causes, such as `ECONNREFUSED`, or else the message of the last cause. In one line. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, cause } = error as NodeJS.ErrnoException; // most errors have neither
  if (typeof code === 'string' && /^E[A-Z]{3,}$|^ERR_(SSL|TLS)/.test(code)) return code;
  const inner = cause ?? (error instanceof AggregateError ? error.errors[0] : undefined);
  if (inner !== undefined) return reasonOf(inner);
  if (/^(Zod|Syntax)Error$/.test(error.name)) return 'its answer is not as expected'; // they quote it, in several lines
  return (error.message.split('\n', 1)[0] || error.name).slice(0, 300);
}
