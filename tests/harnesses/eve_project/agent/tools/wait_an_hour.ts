import { defineTool } from "eve/tools";
import { acts } from "../lib/shop";

export default defineTool(acts("wait_an_hour", "Wait for something that may take an hour."));
