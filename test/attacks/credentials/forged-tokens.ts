import { strangerWith } from '../../support/sign-tokens.ts';
import type { Attack, Target } from '../attack.ts';
import { openAgent } from '../attacker/open-agent.ts';
import { repeat } from '../attacker/repeat.ts';

const dayS = 86_400;

export const forgedTokens: Attack = {
  id: '12',
  name: 'forged-tokens',
  does: 'sign-in tokens with a foreign signature, an unknown key id each, and claims of 8 KB, on 20 connections; at most 600 a second',
  gains({ 200: signedIn = 0 }) {
    return signedIn > 0 ? [`${signedIn} answers to forged tokens`] : [];
  },
  async run(attacker) {
    const tokens = await forgeTokens(attacker.target);
    const send = openAgent(attacker);
    await repeat(attacker, { clients: 20, perSecond: 600 }, (_, index) =>
      send({ path: '/v1/keys/developer', bearer: tokens[index % tokens.length] ?? '', body: {} }),
    );
  },
};

async function forgeTokens({ issuer, audience }: Target): Promise<string[]> {
  const now = Math.floor(Date.now() / 1_000);
  const claims = { iss: issuer, aud: audience, sub: 'eve', iat: now, exp: now + dayS };
  const named = await strangerWith('stranger');
  const unnamed = Array.from({ length: 50 }, () => named(claims, { kid: undefined }));
  const unknown = Array.from({ length: 100 }, (_, index) => named(claims, { kid: `key-${index}` }));
  const huge = Array.from({ length: 50 }, () => named({ ...claims, padding: 'x'.repeat(8_000) }, { kid: undefined }));
  return Promise.all([...unnamed, ...unknown, ...huge]);
}
