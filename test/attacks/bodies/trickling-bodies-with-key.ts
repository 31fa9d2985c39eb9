import { head } from '../../support/refusal.ts';
import type { Attack } from '../attack.ts';
import { trickle } from '../attacker/trickle.ts';

/** Longer than a body may take, so that some are refused. */
const forMs = 40_000;

export const tricklingBodiesWithKey: Attack = {
  id: '5b',
  name: 'trickling-bodies-with-key',
  does: 'chat requests that start with 64 KiB and continue with a byte a second, with keys of 8 accounts, on 1,000 connections',
  accounts: 8,
  forMs,
  run: (attacker) =>
    trickle(attacker, {
      connections: 1_000,
      begin: (client) =>
        head(
          'POST /v1/chat/completions HTTP/1.1',
          `Authorization: Bearer ${attacker.target.keys[client % attacker.target.keys.length]}`,
          'Content-Type: application/json',
          'Content-Length: 4000000',
        ) + ' '.repeat(65_536),
      piece: ' ',
    }),
};
