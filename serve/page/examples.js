// Requests to begin with.
import { question } from "./request.js";

const options = (given) => Object.entries(given).map(([name, text]) => ({ name, text }));

export const EXAMPLES = {
  "a support ticket": () => ({
    kind: "text",
    state:
      "Hi, I was charged twice for my March invoice (no. 4821), and nobody has answered my two " +
      "emails. Please refund the second payment by Friday, or I will cancel my plan.",
    questions: [
      question("noul", {
        id: "urgent",
        instructions: "The customer needs an answer within a day.",
        noul: { true: "there is a deadline, or the customer is about to leave", false: "" },
      }),
      question("choice", {
        id: "team",
        instructions: "Which team should answer?",
        choice: options({
          billing: "invoices, payments and refunds",
          support: "faults, logins, how things work",
          sales: "plans, prices and upgrades",
          other: "",
        }),
      }),
      question("score", {
        id: "anger",
        instructions: "How angry is the customer?",
        score: ["Calm", "Frustrated", "Very angry"],
      }),
    ],
  }),
  "an order in JSON": () => ({
    kind: "json",
    state: JSON.stringify({
      order: { number: 4821, item: "desk lamp", price: "39.00 EUR", delivered: "3 days ago" },
      policy: "Damaged goods are replaced within 14 days of delivery.",
      claim: "The shade is cracked from top to bottom. I did not drop it.",
    }, null, 2),
    questions: [
      question("noul", { id: "covered", instructions: "The policy covers this claim." }),
      question("choice", {
        id: "next_step",
        instructions: "What should happen now?",
        choice: options({
          replace: "send a new one",
          ask_for_photo: "the claim needs evidence first",
          refuse: "",
        }),
      }),
    ],
  }),
  "an agent’s steps": () => ({
    kind: "json",
    state: JSON.stringify([
      { user: "Book a table for four in Lyon tomorrow at eight." },
      { tool: "search_restaurants", result: "3 places with free tables" },
      { tool: "book", result: "error: a phone number is required" },
    ], null, 2),
    questions: [
      question("choice", {
        id: "next_action",
        instructions: "What should the agent do next?",
        choice: options({
          ask_user: "something is missing that only the user knows",
          call_tool: "a tool can bring this further",
          finish: "the task is done",
        }),
      }),
      question("noul", { id: "done", instructions: "The table is booked." }),
      question("score", {
        id: "progress",
        instructions: "How far is the task?",
        score: ["Nothing done", "Begun", "Nearly done", "Done"],
      }),
    ],
  }),
};
