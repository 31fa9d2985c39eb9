import { head } from '../../support/refusal.ts';
import type { Attack } from '../attack.ts';
import { trickle } from '../attacker/trickle.ts';

const announced = ['Content-Type: application/json', 'Content-Length: 4000'];

export const tricklingBodies: Attack = {
  id: '5a',
  name: 'trickling-bodies',
  does: 'bodies of a byte a second without a credential, on 1,000 connections',
  forMs: 25_000,
  run: (attacker) =>
    trickle(attacker, {
      connections: 1_000,
      begin: () => head('POST /v1/keys/guest HTTP/1.1', ...announced),
      piece: ' ',
    }),
};
