import type { Attack } from '../attack.ts';
import { askForMuch, longChat } from './ask-for-much.ts';

export const unreadAnswers: Attack = {
  id: '11a',
  name: 'unread-answers',
  does: 'whole answers of 2 MB, read by half of the clients not at all and by the others at 4 KB a second, on 60 connections of 2 accounts',
  accounts: 2,
  stack: { models: longChat },
  forMs: 30_000,
  run: (attacker) => askForMuch(attacker, { stream: false }),
};
