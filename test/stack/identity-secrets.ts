import { randomBytes, randomUUID } from 'node:crypto';
import { chmod, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, generateKeyPair } from 'jose';
import { z } from 'zod';

const secretsSchema = z.object({
  signingKey: z.object({
    kty: z.literal('EC'),
    crv: z.literal('P-256'),
    x: z.string(),
    y: z.string(),
    d: z.string(),
    kid: z.string(),
    alg: z.literal('ES256'),
    use: z.literal('sig'),
  }),
  cookieKey: z.string(),
  clientSecret: z.string(),
});

export type IdentitySecrets = z.infer<typeof secretsSchema>;

/**
 * The secrets of the identity provider, created on first use. With a directory they are kept in `identity-secrets.json` there, readable
 * by its owner only. Without one they are new each time.
 */
export async function loadIdentitySecrets(directory?: string): Promise<IdentitySecrets> {
  if (directory === undefined) return makeSecrets();
  const file = join(directory, 'identity-secrets.json');
  const kept = await readSecrets(file);
  if (kept !== undefined) return kept;
  await mkdir(directory, { recursive: true });
  await writeOnce(file, JSON.stringify(await makeSecrets()));
  const written = await readSecrets(file);
  if (written === undefined) throw new Error(`${file} was written but is missing`);
  return written;
}

async function readSecrets(file: string): Promise<IdentitySecrets | undefined> {
  try {
    return secretsSchema.parse(JSON.parse(await readFile(file, 'utf8')));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined; // other errors have no such code
    throw new Error(`${file} cannot be used. Remove it to have it created again`, { cause: error });
  }
}

/** Writes the complete file or nothing, and never replaces another one: two that start at once then share the secrets of the first. */
async function writeOnce(file: string, text: string): Promise<void> {
  const draft = `${file}.${randomUUID()}`;
  try {
    await writeFile(draft, text, { mode: 0o600 });
    await chmod(draft, 0o600);
    await link(draft, file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function makeSecrets(): Promise<IdentitySecrets> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), kid: randomUUID(), alg: 'ES256', use: 'sig' };
  const text = () => randomBytes(32).toString('base64url');
  return secretsSchema.parse({ signingKey: key, cookieKey: text(), clientSecret: text() });
}
