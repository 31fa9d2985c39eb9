import type { Attack } from '../attack.ts';
import { askForMuch } from './ask-for-much.ts';
import { prepareLongAnswers } from './long-answers.ts';

export const unreadAnswers: Attack = {
  id: '11a',
  name: 'unread-answers',
  does: 'whole answers of 4 MiB, which half of the clients do not read and the others read at 4 KB a second, on 60 connections of 2 accounts; at most 3 new ones a second',
  accounts: 2,
  plan: 'pro',
  prepare: () => prepareLongAnswers({ stream: false }),
  forMs: 30_000,
  run: (attacker) => askForMuch(attacker, { stream: false }),
};
