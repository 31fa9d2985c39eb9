import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];

/** The files of a certificate and its key in PEM, and their texts. */
export type Certificate = { certFile: string; keyFile: string; cert: string; key: string };

/** A certificate for 127.0.0.1, or another name (`DNS:host`), that vouches for itself. Needs `openssl`. */
export async function makeCertificate(folder: string, name: string, host = 'IP:127.0.0.1'): Promise<Certificate> {
  const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}-key.pem`)];
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${host}`];
  await run('openssl', ['req', '-x509', ...curve, ...subject, '-keyout', keyFile, '-out', certFile]);
  return { certFile, keyFile, cert: await readFile(certFile, 'utf8'), key: await readFile(keyFile, 'utf8') };
}
