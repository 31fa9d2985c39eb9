import { readFileSync, statSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { ValidationIssue } from '../errors.ts';
import type { Backend, PlanFile } from './plan-file.ts';

/** The files that the settings of a backend name: its key, and certificates. */

const keyBytesMax = 8_192;
/** A bundle of all public authorities has about 250 KB. */
const certificateBytesMax = 1_048_576;

export type TlsFiles = Pick<Backend, 'caFile' | 'clientCertFile' | 'clientKeyFile'>;

/** The texts of these files. */
export type TlsTexts = Record<'ca' | 'cert' | 'key', string | undefined>;

/** Reads an API key. Throws an error whose message has nothing of the file. */
export async function readKeyFile(file: string): Promise<string> {
  requireReadable(await stat(file), keyBytesMax);
  return keyIn(await readFile(file, 'utf8'));
}

/** The same at once, for the start of a process. */
export function readKeyFileAtOnce(file: string): string {
  return keyIn(readAtOnce(file, keyBytesMax));
}

export async function readTlsFiles(files: TlsFiles): Promise<TlsTexts> {
  const read = async (file: string | undefined) => {
    if (file === undefined) return undefined;
    requireReadable(await stat(file), certificateBytesMax);
    return readFile(file, 'utf8');
  };
  const [ca, cert, key] = await Promise.all([files.caFile, files.clientCertFile, files.clientKeyFile].map(read));
  return { ca, cert, key };
}

/** Throws an error whose message has nothing of the files. */
export function secureContextOf({ ca, cert, key }: Partial<TlsTexts>): SecureContext {
  if (ca !== undefined && !ca.includes('-----BEGIN CERTIFICATE-----')) throw new Error('has no certificate in PEM');
  try {
    return createSecureContext({ ca, cert, key });
  } catch {
    throw new Error(`has no certificate in PEM${cert === undefined ? '' : ' that fits its key'}`);
  }
}

/** Lists the files that the plan file needs and that cannot be used. */
export function fileIssuesOf({ backends }: Pick<PlanFile, 'backends'>): ValidationIssue[] {
  return Object.entries(backends).flatMap(([name, backend]) => {
    const { apiKeyFile, caFile, clientCertFile, clientKeyFile } = backend;
    const issueOf = (field: string, file: string | undefined, read: (file: string) => unknown) => {
      const reason = file === undefined ? undefined : failureOf(() => read(file));
      return reason === undefined ? [] : [{ path: `backends.${name}.${field}`, message: `${file}: ${reason}` }];
    };
    const readPem = (file: string) => readAtOnce(file, certificateBytesMax);
    const cert = (file: string) => secureContextOf({ cert: readPem(file), key: readPem(clientKeyFile ?? file) });
    const ofKey = issueOf('client_key_file', clientKeyFile, readPem);
    return [
      ...issueOf('api_key_file', apiKeyFile, readKeyFileAtOnce),
      ...issueOf('ca_file', caFile, (file) => secureContextOf({ ca: readPem(file) })),
      ...ofKey,
      ...(ofKey.length === 0 ? issueOf('client_cert_file', clientCertFile, cert) : []),
    ];
  });
}

/** A pipe could block the read for ever. */
function requireReadable(found: { isFile(): boolean; size: number }, bytesMax: number): void {
  if (!found.isFile()) throw new Error('is not a regular file');
  if (found.size > bytesMax) throw new Error(`is larger than ${bytesMax} bytes`);
}

function readAtOnce(file: string, bytesMax: number): string {
  requireReadable(statSync(file), bytesMax);
  return readFileSync(file, 'utf8');
}

function keyIn(text: string): string {
  const key = text.trim();
  if (key === '') throw new Error('is empty');
  if (!/^[!-~]+$/.test(key)) throw new Error('has more than one word, or characters that no header may have');
  return key;
}

function failureOf(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException; // fs and the checks above throw nothing else
    return code === undefined ? message : `cannot be read (${code})`;
  }
}
