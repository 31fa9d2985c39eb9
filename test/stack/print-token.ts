import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { requestToken } from './identity-provider.ts';
import { dataDirectory, standingFile } from './standing.ts';

const usage = 'Usage: npm run --silent token -- <account> [--admin]\nPrints a sign-in token of the running stack.';
const standingSchema = z.object({ issuer: z.string(), clientSecret: z.string() });

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { admin: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
  });
  const [account, another] = positionals;
  if (values.help) {
    console.log(usage);
  } else if (account === undefined || another !== undefined) {
    console.error(usage);
    process.exitCode = 2;
  } else {
    console.log(await requestToken({ ...(await standing()), account, admin: values.admin }));
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function standing() {
  try {
    return standingSchema.parse(JSON.parse(await readFile(join(dataDirectory, standingFile), 'utf8')));
  } catch (cause) {
    throw new Error('The stack is not running: start it by npm start, and ask again.', { cause });
  }
}
