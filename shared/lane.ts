/** Interactive: a client waits. Batch: nobody does, and it takes what interactive leaves free. */
export type Lane = 'interactive' | 'batch';

export const lanes: readonly Lane[] = ['interactive', 'batch'];
