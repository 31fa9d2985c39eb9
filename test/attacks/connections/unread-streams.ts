import type { Attack } from '../attack.ts';
import { askForMuch, longChat } from './ask-for-much.ts';

export const unreadStreams: Attack = {
  id: '11b',
  name: 'unread-streams',
  does: 'streams of 2 MB of text, read by half of the clients not at all and by the others at 4 KB a second, on 60 connections of 2 accounts',
  accounts: 2,
  stack: { models: longChat },
  forMs: 30_000,
  run: (attacker) => askForMuch(attacker, { stream: true }),
};
