import { aborted, shutdownSignal } from '../../shared/concurrency/shutdown.ts';
import { startIdentityProvider } from './identity-provider.ts';
import { startModelServer } from './model-server.ts';
import { dataDirectory, writeRunningStack } from './running-stack.ts';

// The operator's parts, in one process for a stack of containers: the identity provider on port 8083 and three
// simulated model servers on 8084 to 8086. ISSUER is its address for the other containers, BASE_URL the audience of its tokens.
const host = '0.0.0.0';
const { ISSUER: issuer, BASE_URL: audience } = process.env;
if (!issuer || !audience) {
  console.error('ISSUER and BASE_URL are required.');
  process.exit(1);
}

const identity = await startIdentityProvider({ host, port: 8083, issuer, audience, dataDirectory });
const pace = { firstTokenMs: 100, tokensPerSecond: 50 };
for (const [index, name] of ['onprem-a', 'onprem-b', 'cloud'].entries()) {
  await startModelServer({ name, host, port: 8084 + index, ...pace });
}
await writeRunningStack({ issuer: identity.issuer, clientSecret: identity.clientSecret });
console.log('ready');
await aborted(shutdownSignal());
process.exit();
