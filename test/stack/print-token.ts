import { parseArgs } from 'node:util';
import { requestToken } from './identity-provider.ts';
import { dataDirectory, readRunningStack } from './running-stack.ts';

const usage =
  'Usage: npm run --silent token -- <account> [--admin] [--data <folder>]\nPrints a sign-in token of the running stack.';

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      admin: { type: 'boolean', default: false },
      data: { type: 'string', default: dataDirectory },
      help: { type: 'boolean', default: false },
    },
  });
  const [account, another] = positionals;
  if (values.help) {
    console.log(usage);
  } else if (account === undefined || another !== undefined) {
    console.error(usage);
    process.exitCode = 2;
  } else {
    const { issuer, clientSecret } = await readRunningStack(values.data);
    console.log(await requestToken({ issuer, clientSecret, account, admin: values.admin }));
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
